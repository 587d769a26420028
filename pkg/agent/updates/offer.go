// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package updates

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// Source is the Windows Update Agent. It asks the server that the policy of the host names, of which there may be
// one of the organization. Its calls may take longer than their context.
type Source interface {
	// Search returns the software updates that apply to the host, are not installed, not hidden by an
	// administrator and not only offered to those who look for them.
	Search(ctx context.Context) ([]Offer, error)
	// Download gets the files of an update that a search has found, and accepts its license. [ErrNotBegun] is wrapped as
	// by Install.
	Download(ctx context.Context, id Identity) error
	// Install installs updates that were downloaded, and restarts nothing. It returns what became of each, in their order.
	// [ErrRestartFirst] is wrapped when Windows installs nothing before it has been restarted, and [ErrNotBegun] when it
	// got not as far as the updates. One that is exclusive is alone: with others Windows installs none.
	Install(ctx context.Context, ids []Identity) ([]Result, error)
	// RestartPending says whether Windows has to be restarted to complete what was installed, by whomever. It waits for no
	// other call.
	RestartPending(ctx context.Context) (bool, error)
}

// ErrNotBegun means that Windows failed before it did anything about an update, which says nothing about updates.
var ErrNotBegun = errors.New("it was not begun")

// ErrBusy is wrapped besides [ErrNotBegun] when Windows installs something else, however often that happens.
var ErrBusy = errors.New("Windows installs something else, and did not end that in time")

// ErrServiceStopped means that the service of the Windows Update Agent ended in the middle of an installation: the host is shut down, or something else ended it.
var ErrServiceStopped = errors.New("the service wuauserv stopped in the middle of it")

// ErrRestartFirst means that Windows waits for a restart, and installs nothing before that.
var ErrRestartFirst = errors.New("Windows has to be restarted first")

// ErrNotOffered means that the server does not offer an update any more, as when a newer one has taken its place.
var ErrNotOffered = errors.New("the server does not offer it any more")

// Identity is what Windows Update knows an update by.
type Identity struct {
	ID       string
	Revision int
}

// Result is what became of an update that was to be installed.
type Result struct {
	// Err is why it was not. Nil: it was.
	Err error
	// RebootRequired: it takes effect when Windows has been restarted.
	RebootRequired bool
}

// Offer is an update as Windows Update describes it.
type Offer struct {
	ID       string
	Revision int
	Title    string
	// Articles are the numbers of the articles about it, without "KB".
	Articles []string
	// Categories are the identifiers of the classifications and products that it belongs to.
	Categories []string
	// Severity is the rating of the weaknesses that it fixes (MsrcSeverity). Empty: none.
	Severity   string
	Downloaded bool
	// Bytes is how much is downloaded at most. 0: not known.
	Bytes int64
	// Interactive updates may ask questions while they are installed.
	Interactive bool
	// Exclusive updates are installed alone.
	Exclusive bool
}

// Classifications of updates; see learn.microsoft.com, "Classification GUIDs".
const (
	// ClassSecurity updates fix weaknesses. The monthly cumulative update is one.
	ClassSecurity = "0fa1201d-4330-4fa8-8ae9-b877473b6441"
	// ClassDefinition updates are the signatures of the antivirus, several a day. It gets them by itself, without a restart.
	ClassDefinition = "e0789628-ce08-4437-be74-2495b842f43b"
	// ClassUpgrade updates make another version of Windows of this one, which is not to happen to a node in passing:
	// its containers need the version that they were made for.
	ClassUpgrade = "3689bdc8-b205-4af4-8d4a-a63924c5e9d5"
	// ClassDriver updates may be offered as software.
	ClassDriver = "ebfc1fc5-71a4-4f7b-9aca-3b9a503104a0"
)

// pending returns the updates of offers that concern us, those for security first.
func pending(offers []Offer) []api.Update {
	var list []api.Update
	for _, o := range offers {
		is := func(class string) bool {
			return slices.ContainsFunc(o.Categories, func(c string) bool { return strings.EqualFold(c, class) })
		}
		if o.ID == "" || is(ClassDefinition) || is(ClassUpgrade) || is(ClassDriver) {
			continue
		}
		u := api.Update{
			ID: o.ID, Revision: o.Revision, Title: o.Title, Severity: o.Severity, Downloaded: o.Downloaded,
			Bytes: o.Bytes, Interactive: o.Interactive, Exclusive: o.Exclusive,
			Security: is(ClassSecurity) || o.Severity != "",
		}
		for _, number := range o.Articles {
			u.KBs = append(u.KBs, "KB"+strings.TrimPrefix(strings.ToUpper(number), "KB"))
		}
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b api.Update) int {
		switch {
		case a.Security == b.Security:
			return cmp.Or(strings.Compare(a.Title, b.Title), strings.Compare(a.ID, b.ID))
		case a.Security:
			return -1
		}
		return 1
	})
	return list
}
