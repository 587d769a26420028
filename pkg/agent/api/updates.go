// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"strings"
	"time"
)

const (
	// UpdatesPath is the file in which the service keeps [WindowsUpdates].
	UpdatesPath = Root + `\state\updates.json`
	// UpdatesRequestPath is the file in which "updates" leaves its [UpdatesRequest] for the service. Only
	// administrators can write it.
	UpdatesRequestPath = Root + `\state\updates-request.json`
)

const (
	// MaxPendingUpdates is how many updates [WindowsUpdates] names.
	MaxPendingUpdates = 64
	// MaxUpdateFailures is how many failures [WindowsUpdates] has.
	MaxUpdateFailures = 16
)

// WindowsUpdates is what the service of a host knows of the updates of Windows that wait to be
// installed. It searches for them every few hours, and after each boot.
type WindowsUpdates struct {
	// SearchedAt is when the last search that succeeded ended. Zero: none did.
	SearchedAt time.Time `json:"searchedAt,omitzero"`
	// BootID is the boot in which that was.
	BootID string `json:"bootID,omitempty"`
	// FailedAt is when a search failed after that, and Error why. Zero: none did.
	FailedAt time.Time `json:"failedAt,omitzero"`
	Error    string    `json:"error,omitempty"`
	// Total is how many updates wait, and Security how many of them fix weaknesses.
	Total    int `json:"total"`
	Security int `json:"security"`
	// Pending are the updates, those for security first, at most [MaxPendingUpdates] of them.
	Pending []Update `json:"pending,omitempty"`
	// Failures are updates that could not be installed and still wait, the newest first. They are not tried again
	// before their time unless somebody asks. Interactive ones are among them as soon as a search has found them.
	Failures []UpdateFailure `json:"failures,omitempty"`
	// Unproven are updates that were installed, and that no search has found to be so yet, in another boot if they need a restart.
	Unproven []InstalledUpdate `json:"unproven,omitempty"`
	// Untried are updates about which Windows did nothing when they were requested last. When that is so in two requests, at least an hour and at most eight days
	// apart, they have failed; for those that wait for a restart the two have to be in different boots.
	Untried []UntriedUpdate `json:"untried,omitempty"`
	// RunningBootID is the boot in which the service runs, and RunningSince when it did so first: after a boot Windows goes on with what was installed.
	RunningBootID string    `json:"runningBootID,omitempty"`
	RunningSince  time.Time `json:"runningSince,omitzero"`
	// Attempt is what was requested last, and what became of it. Nil: nothing was.
	Attempt *UpdateAttempt `json:"attempt,omitempty"`
}

// Update is an update of Windows that waits to be installed.
type Update struct {
	// ID and Revision identify it for the Windows Update Agent.
	ID       string `json:"id"`
	Revision int    `json:"revision"`
	// Title is its name, for people.
	Title string `json:"title"`
	// KBs are the articles about it, such as KB5044281.
	KBs []string `json:"kbs,omitempty"`
	// Security says whether it fixes weaknesses, and Severity how bad these are, as in "Critical". Empty: it is not rated.
	Security bool   `json:"security,omitempty"`
	Severity string `json:"severity,omitempty"`
	// Bytes is how much is downloaded at most. 0: not known.
	Bytes int64 `json:"bytes,omitempty"`
	// Downloaded says whether its files are on the host.
	Downloaded bool `json:"downloaded,omitempty"`
	// Interactive updates may ask questions while they are installed, so that only a person can do that.
	Interactive bool `json:"interactive,omitempty"`
	// Exclusive updates are installed before others, each alone, as Windows installs none of several with one of them.
	Exclusive bool `json:"exclusive,omitempty"`
}

// Name is the shortest name that tells the update from others: its articles, or else its title.
func (u *Update) Name() string {
	if len(u.KBs) == 0 {
		return u.Title
	}
	return strings.Join(u.KBs, "+")
}

// UpdateFailure is an update that could not be installed.
type UpdateFailure struct {
	ID       string `json:"id"`
	Revision int    `json:"revision"`
	Name     string `json:"name"`
	Security bool   `json:"security,omitempty"`
	// At is when it failed, and RetryAt when it is tried again at the earliest.
	At      time.Time `json:"at"`
	RetryAt time.Time `json:"retryAt"`
	// Request is the ID of the request that it failed for, and Action what was done then. Empty: of an interactive one, that nobody has
	// tried it; else an earlier release has recorded it.
	Request string       `json:"request"`
	Action  UpdateAction `json:"action,omitempty"`
	// Interactive is that of the [Update]. It is not tried again unless somebody asks, and fails then as well.
	Interactive bool `json:"interactive,omitempty"`
	// Error is why.
	Error string `json:"error"`
}

// InstalledUpdate is an update that Windows says it has installed.
type InstalledUpdate struct {
	ID       string `json:"id"`
	Revision int    `json:"revision"`
	Name     string `json:"name"`
	Security bool   `json:"security,omitempty"`
	// BootID is the boot in which that was, and Request the ID of the request. With SecondRestart it is the one that has Windows restarted again.
	BootID  string `json:"bootID"`
	Request string `json:"request"`
	// RebootRequired says whether Windows has to be restarted for what that request has installed.
	RebootRequired bool `json:"rebootRequired,omitempty"`
	// SecondRestart: Windows was restarted for it, and waited for another restart after that. BootID is that boot then.
	SecondRestart bool `json:"secondRestart,omitempty"`
}

// UntriedUpdate is an update about which Windows did nothing: it did not begin, wanted to be restarted first, or did not offer the update any more.
type UntriedUpdate struct {
	ID       string `json:"id"`
	Revision int    `json:"revision"`
	// Request is the ID of the request in which that was, and Action what was to be done.
	Request string       `json:"request"`
	Action  UpdateAction `json:"action"`
	// BootID is the boot in which Windows wanted to be restarted before it installs the update. Empty: it was something else.
	BootID string `json:"bootID,omitempty"`
	// At is when that was. Zero: an earlier release has recorded it.
	At time.Time `json:"at,omitzero"`
}

// UpdateScope is which updates are meant.
type UpdateScope string

// Scopes.
const (
	UpdatesSecurity UpdateScope = "Security"
	UpdatesAll      UpdateScope = "All"
)

// UpdateAction is what the service is to do about updates.
type UpdateAction string

const (
	// ActionDownload searches for updates and downloads them.
	ActionDownload UpdateAction = "Download"
	// ActionInstall installs what was downloaded. The host is not restarted.
	ActionInstall UpdateAction = "Install"
	// ActionVerify searches, and so finds out which of those that were installed are not, after a restart.
	ActionVerify UpdateAction = "Verify"
)

// UpdatesRequest requests something of the service. The same request again is the same attempt.
type UpdatesRequest struct {
	// ID tells requests apart, together with the action.
	ID     string       `json:"id"`
	Action UpdateAction `json:"action"`
	Scope  UpdateScope  `json:"scope"`
	// Retry also tries updates that have failed not long ago.
	Retry bool `json:"retry,omitempty"`
}

// UpdatesAnswer is the answer to an [UpdatesRequest].
type UpdatesAnswer struct {
	// Attempt is how far the request is. Nil: the service has not seen it yet.
	Attempt *UpdateAttempt `json:"attempt,omitempty"`
	// Refused says why the request cannot be met. Empty: it can.
	Refused string `json:"refused,omitempty"`
}

// UpdateAttempt is what became of a request. It is kept before anything is done and after each update, so that a service
// that is started again goes on with it.
type UpdateAttempt struct {
	Request   UpdatesRequest `json:"request"`
	StartedAt time.Time      `json:"startedAt"`
	// EndedAt is when it was over. Zero: it is not.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// Starts counts how often it was begun, as the service may end in the middle.
	Starts int `json:"starts"`
	// Done counts updates that were dealt with, of Total.
	Done  int `json:"done"`
	Total int `json:"total"`
	// AfterRestart is how many of Total Windows installs only when it has been restarted, which another request has to ask for.
	AfterRestart int `json:"afterRestart,omitempty"`
	// Succeeded names the updates that were downloaded, installed or proven to be.
	Succeeded []string `json:"succeeded,omitempty"`
	// Failures are the updates of the request that failed, in this attempt and in those before it with the same ID.
	Failures []UpdateFailure `json:"failures,omitempty"`
	// RebootRequired says whether Windows has to be restarted for what was installed. Of an installation that was interrupted
	// or failed it says whether Windows waits for a restart at its end, and of a verification whether it waits for a second one.
	RebootRequired bool `json:"rebootRequired,omitempty"`
	// WaitsUntil is until when a verification waits at most for Windows to complete what was installed. Zero: it does not.
	WaitsUntil time.Time `json:"waitsUntil,omitzero"`
	// Error is why it could not be completed. Empty: it was, or still runs.
	Error string `json:"error,omitempty"`
}
