// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// The Windows Update Agent is used through its COM interfaces (wuapi.h); see learn.microsoft.com, "Windows Update
// Agent API".
var (
	clsidUpdateSession = windows.GUID{Data1: 0x4cb43d7f, Data2: 0x7eee, Data3: 0x4906, Data4: [8]byte{0x86, 0x98, 0x60, 0xda, 0x1c, 0x38, 0xf2, 0xfe}}
	iidUpdateSession   = windows.GUID{Data1: 0x816858a4, Data2: 0x260d, Data3: 0x4260, Data4: [8]byte{0x93, 0x3a, 0x25, 0x85, 0xf1, 0xab, 0xc7, 0x6b}}
)

// The tables of methods have their fields in the order of wuapi.h, as far as they are called.

// updateSession is IUpdateSession.
type updateSession struct {
	iDispatch
	GetClientApplicationID, PutClientApplicationID                      uintptr
	GetReadOnly                                                         uintptr
	GetWebProxy, PutWebProxy                                            uintptr
	CreateUpdateSearcher, CreateUpdateDownloader, CreateUpdateInstaller uintptr
}

// updateSearcher is IUpdateSearcher as far as put_Online. Which server it asks is left to the policy of the host.
type updateSearcher struct {
	iDispatch
	GetCanAutomaticallyUpgradeService, PutCanAutomaticallyUpgradeService           uintptr
	GetClientApplicationID, PutClientApplicationID                                 uintptr
	GetIncludePotentiallySupersededUpdates, PutIncludePotentiallySupersededUpdates uintptr
	GetServerSelection, PutServerSelection                                         uintptr
	BeginSearch, EndSearch, EscapeString, QueryHistory, Search                     uintptr
	GetOnline, PutOnline                                                           uintptr
}

// searchResult is ISearchResult.
type searchResult struct {
	iDispatch
	GetResultCode, GetRootCategories, GetUpdates, GetWarnings uintptr
}

// collection is how IUpdateCollection and IStringCollection begin.
type collection struct {
	iDispatch
	GetItem, PutItem, GetNewEnum, GetCount, GetReadOnly, Add uintptr
}

// categoryCollection is ICategoryCollection.
type categoryCollection struct {
	iDispatch
	GetItem, GetNewEnum, GetCount uintptr
}

// updateCategory is ICategory as far as get_CategoryID.
type updateCategory struct {
	iDispatch
	GetName, GetCategoryID uintptr
}

// updateIdentity is IUpdateIdentity.
type updateIdentity struct {
	iDispatch
	GetRevisionNumber, GetUpdateID uintptr
}

// windowsUpdate is IUpdate.
type windowsUpdate struct {
	iDispatch
	GetTitle, GetAutoSelectOnWebSites, GetBundledUpdates, GetCanRequireSource, GetCategories               uintptr
	GetDeadline, GetDeltaCompressedContentAvailable, GetDeltaCompressedContentPreferred                    uintptr
	GetDescription, GetEulaAccepted, GetEulaText, GetHandlerID, GetIdentity, GetImage                      uintptr
	GetInstallationBehavior, GetIsBeta, GetIsDownloaded, GetIsHidden, PutIsHidden                          uintptr
	GetIsInstalled, GetIsMandatory, GetIsUninstallable, GetLanguages                                       uintptr
	GetLastDeploymentChangeTime, GetMaxDownloadSize, GetMinDownloadSize, GetMoreInfoURLs                   uintptr
	GetMsrcSeverity, GetRecommendedCPUSpeed, GetRecommendedHardDiskSpace, GetRecommendedMemory             uintptr
	GetReleaseNotes, GetSecurityBulletinIDs, GetSupersededUpdateIDs, GetSupportURL, GetType                uintptr
	GetUninstallationNotes, GetUninstallationBehavior, GetUninstallationSteps, GetKBArticleIDs, AcceptEula uintptr
}

// Values of wuapi.h.
const (
	resultSucceeded           = 2
	resultSucceededWithErrors = 3
)

// searchCriteria are those of updates that Windows would install by itself: no drivers, nothing that an administrator
// has hidden, and no previews, which are only offered to those who look for them.
const searchCriteria = "IsInstalled=0 and IsHidden=0 and Type='Software' and BrowseOnly=0"

// maxOffers bounds how many updates are read of a search.
const maxOffers = 1000

// Updates implements [agent.Host].
func (h *Host) Updates() updates.Source { return updateAgent{} }

type updateAgent struct{}

// Search implements [updates.Source].
func (updateAgent) Search(context.Context) (offers []updates.Offer, err error) {
	err = withUpdateSession(func(session *comObject[updateSession]) error {
		return searchUpdates(session, askServer, func(found *comObject[windowsUpdate]) error {
			offer, err := readOffer(found)
			offers = append(offers, offer)
			return err
		})
	})
	return offers, err
}

// withUpdateSession calls use with a session of the Windows Update Agent.
func withUpdateSession(use func(session *comObject[updateSession]) error) error {
	return withCOM(func() error {
		session, err := createObject[updateSession](&clsidUpdateSession, &iidUpdateSession)
		if err != nil {
			return fmt.Errorf("finding the Windows Update Agent: %w", err)
		}
		defer session.release()
		if err := session.putString(session.methods.PutClientApplicationID, "windows-node-agent"); err != nil {
			return fmt.Errorf("naming the session of the Windows Update Agent: %w", err)
		}
		return use(session)
	})
}

// searchSource is where a search looks.
type searchSource string

const (
	// askServer asks the server, which is what Windows does by default.
	askServer searchSource = "server"
	// askHost asks nobody but the host, which knows what the server offered last. It takes seconds, and does not fail with
	// the network.
	askHost searchSource = "host"
)

// searchUpdates calls use with each update that is found, which is released after that.
func searchUpdates(session *comObject[updateSession], source searchSource, use func(*comObject[windowsUpdate]) error) error {
	searcher, err := getObject[updateSearcher](session, session.methods.CreateUpdateSearcher)
	if err != nil {
		return fmt.Errorf("creating a search: %w", err)
	}
	defer searcher.release()
	if source == askHost {
		if err := comCall(unsafe.Pointer(searcher), searcher.methods.PutOnline, variantFalse); err != nil {
			return fmt.Errorf("preparing a search: %w", updateError(err))
		}
	}
	var result *comObject[searchResult]
	if err := withString(searchCriteria, func(bstr uintptr) error {
		return comCall(unsafe.Pointer(searcher), searcher.methods.Search, bstr, uintptr(unsafe.Pointer(&result)))
	}); err != nil {
		return fmt.Errorf("searching: %w", updateError(err))
	}
	defer result.release()
	code, err := result.getInt(result.methods.GetResultCode)
	switch {
	case err != nil:
		return fmt.Errorf("reading the result of the search: %w", err)
	case code != resultSucceeded && code != resultSucceededWithErrors:
		return fmt.Errorf("searching: it ended with result code %d", code)
	}
	list, err := getObject[collection](result, result.methods.GetUpdates)
	if err != nil {
		return fmt.Errorf("reading what was found: %w", err)
	}
	defer list.release()
	return eachItem(list, list.methods.GetCount, list.methods.GetItem, use)
}

// readOffer reads what we need of an update.
func readOffer(u *comObject[windowsUpdate]) (updates.Offer, error) {
	var o updates.Offer
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	var err error
	o.Title, err = u.getString(u.methods.GetTitle)
	keep(err)
	o.Severity, err = u.getString(u.methods.GetMsrcSeverity)
	keep(err)
	downloaded, err := u.getInt(u.methods.GetIsDownloaded)
	keep(err)
	o.Downloaded = int16(downloaded) != 0
	o.ID, o.Revision, err = readIdentity(u)
	keep(err)
	o.Bytes, err = readSize(u)
	keep(err)
	if behavior, err := getObject[installationBehavior](u, u.methods.GetInstallationBehavior); err == nil { // not each update has one
		asks, err := behavior.getInt(behavior.methods.GetCanRequestUserInput)
		keep(err)
		o.Interactive = int16(asks) != 0
		impact, err := behavior.getInt(behavior.methods.GetImpact)
		keep(err)
		o.Exclusive = impact == impactExclusive
		behavior.release()
	}
	categories, err := getObject[categoryCollection](u, u.methods.GetCategories)
	keep(err)
	if err == nil {
		keep(eachItem(categories, categories.methods.GetCount, categories.methods.GetItem, func(c *comObject[updateCategory]) error {
			id, err := c.getString(c.methods.GetCategoryID)
			o.Categories = append(o.Categories, id)
			return err
		}))
		categories.release()
	}
	articles, err := getObject[collection](u, u.methods.GetKBArticleIDs)
	keep(err)
	if err == nil {
		keep(eachString(articles, func(number string) { o.Articles = append(o.Articles, number) }))
		articles.release()
	}
	if err := errors.Join(errs...); err != nil {
		return o, fmt.Errorf("reading update %q: %w", o.Title, err)
	}
	return o, nil
}

// readSize reads how much is downloaded at most, in bytes. A DECIMAL (wtypes.h) has a scale, which is 0 here.
func readSize(u *comObject[windowsUpdate]) (int64, error) {
	var size struct {
		reserved    uint16
		scale, sign uint8
		high        uint32
		low         uint64
	}
	if err := comCall(unsafe.Pointer(u), u.methods.GetMaxDownloadSize, uintptr(unsafe.Pointer(&size))); err != nil {
		return 0, err
	}
	if size.scale != 0 || size.sign != 0 || size.high != 0 || size.low > math.MaxInt64 {
		return 0, nil
	}
	return int64(size.low), nil
}

func readIdentity(u *comObject[windowsUpdate]) (id string, revision int, err error) {
	identity, err := getObject[updateIdentity](u, u.methods.GetIdentity)
	if err != nil {
		return "", 0, err
	}
	defer identity.release()
	number, err := identity.getInt(identity.methods.GetRevisionNumber)
	if err != nil {
		return "", 0, err
	}
	id, err = identity.getString(identity.methods.GetUpdateID)
	return id, int(number), err
}

// eachItem calls use with each interface of a collection, which is released after that.
func eachItem[M, O any](list *comObject[O], getCount, getItem uintptr, use func(*comObject[M]) error) error {
	count, err := list.getInt(getCount)
	if err != nil {
		return err
	}
	for i := range min(count, maxOffers) {
		var item *comObject[M]
		if err := comCall(unsafe.Pointer(list), getItem, uintptr(i), uintptr(unsafe.Pointer(&item))); err != nil {
			return err
		}
		err := use(item)
		item.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// eachString is eachItem for a collection of strings.
func eachString(list *comObject[collection], use func(string)) error {
	count, err := list.getInt(list.methods.GetCount)
	if err != nil {
		return err
	}
	for i := range min(count, maxOffers) {
		var bstr *uint16
		if err := comCall(unsafe.Pointer(list), list.methods.GetItem, uintptr(i), uintptr(unsafe.Pointer(&bstr))); err != nil {
			return err
		}
		use(windows.UTF16PtrToString(bstr))
		freeString(bstr)
	}
	return nil
}

// RestartPending implements [updates.Source]. It reads what the parts of Windows that install updates have recorded, as the Windows
// Update Agent may hang.
func (updateAgent) RestartPending(context.Context) (bool, error) {
	var pending api.PendingReboot
	err := pendingReboot(&pending)
	return slices.Contains(pending.Reasons, api.RebootComponentServicing) || slices.Contains(pending.Reasons, api.RebootWindowsUpdate), err
}

// updateError says what to do about an error of the Windows Update Agent, with its code, by which people find it.
func updateError(err error) error {
	if code, ok := errors.AsType[windows.Errno](err); ok && uint64(code) <= math.MaxUint16 {
		return fmt.Errorf("%w (%w)", hresultError(0x80070000|uint32(code)), err)
	}
	return err
}
