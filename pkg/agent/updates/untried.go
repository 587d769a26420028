// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package updates

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

const (
	// untriedApart is how long after the first time the second one counts at the earliest: who tries it again at once, as people do, meets the same trouble.
	untriedApart = time.Hour
	// untriedKept is until when it counts, with a window that opens once a week too: requests in between may not have come to the update, so that nobody knows whether it was so all the time.
	untriedKept = 8 * 24 * time.Hour
)

// errRestartInVain is why updates have failed that Windows installs only after a restart, also after that. A later restart may still help.
var errRestartInVain = errors.New("it cannot be installed: Windows asks for a restart before it installs anything, although it was restarted since the " +
	`operation before: see what it waits for (kubectl windows top, column REBOOT PENDING) and C:\Windows\Logs\CBS\CBS.log`)

// untried keeps that Windows did nothing about an update. At first that says nothing about it: another one has taken its place, or something else
// failed. When it was so in the request before as well, it is a failure of the update: the host would be drained for it again and again. It is none
// that Windows was busy with others.
func (u *Updater) untried(known *api.WindowsUpdates, p *api.Update, what string, err error) {
	if !errors.Is(err, ErrBusy) && u.untriedBefore(known, p, "") {
		u.failed(known, p, fmt.Errorf("%s, as in the operation before: %w", what, err))
	}
}

// restartFirst is untried for an update that Windows does not install before it has been restarted. It waits for that restart, unless one was in vain.
func (u *Updater) restartFirst(known *api.WindowsUpdates, p *api.Update, boot string) {
	if u.untriedBefore(known, p, boot) {
		u.failed(known, p, errRestartInVain)
		known.Attempt.Done++
		return
	}
	known.Attempt.AfterRestart++
}

// untriedBefore keeps an update as untried, and says whether it was that before as well; with a boot, in which Windows wants to be restarted first,
// whether it wanted that in another boot. The first time is kept until the second one counts.
func (u *Updater) untriedBefore(known *api.WindowsUpdates, p *api.Update, boot string) bool {
	r, now := known.Attempt.Request, u.Now()
	before := false
	for _, n := range known.Untried {
		if n.ID != p.ID || n.Revision != p.Revision || n.Action != r.Action || (n.BootID == "") != (boot == "") {
			continue
		}
		ago := now.Sub(n.At)
		if ago < -clockSlack || ago > untriedKept { // or it is of an earlier release, which kept no time
			continue
		}
		if n.Request == r.ID || ago < untriedApart || boot != "" && n.BootID == boot {
			return false
		}
		before = true
	}
	known.Untried = slices.DeleteFunc(known.Untried, func(n api.UntriedUpdate) bool {
		return n.ID == p.ID && n.Action == r.Action && (n.BootID == "") == (boot == "")
	})
	known.Untried = append(known.Untried, api.UntriedUpdate{ID: p.ID, Revision: p.Revision, Request: r.ID, Action: r.Action, BootID: boot, At: now})
	return before
}

// tried ends what untried keeps of an update.
func (u *Updater) tried(known *api.WindowsUpdates, p *api.Update) {
	action := known.Attempt.Request.Action
	known.Untried = slices.DeleteFunc(known.Untried, func(n api.UntriedUpdate) bool { return n.ID == p.ID && n.Action == action })
}
