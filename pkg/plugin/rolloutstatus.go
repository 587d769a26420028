// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// steady is for how long a pool must look finished. One controller notes the change of its spec, another one finds out moments later what that means
// for the hosts.
const steady = 3 * time.Second

// maxOutstanding is how many hosts are named on which something is outstanding.
const maxOutstanding = 10

type rolloutStatus struct {
	watch   bool
	timeout time.Duration
}

func newRolloutStatus(e *env) *cobra.Command {
	o := &rolloutStatus{}
	cmd := &cobra.Command{
		Use:   "status POOL",
		Short: "Show how far a pool is, until all its hosts are updated and restarted",
		Long: `Show what is done to each host of a pool, and what the others wait for, until all of them have the desired
configuration and were restarted if somebody has asked for that. On a terminal each host that is not done is a line that is
drawn again where it is; elsewhere each change is a line. It ends with code 1 when it does not go on by itself: the pool is paused,
the canaries are done, an update broke a host, a revision was rolled back, its window is closed, a host is paused or cannot be
logged in to, somebody has cordoned a Node that the others wait for, a host is never updated, because another instance has it
or others manage it, or windows-controller has not observed a change of the pool for four minutes. The reason is the last that it
says. Updates of Windows, and restarts that Windows waits for, are no part of a rollout: it says last which ones are outstanding,
and waits only for those that are being done or are next.`,
		Example: `  kubectl windows rollout status windows-instances
  kubectl windows rollout status windows-instances --watch=false`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: e.completePool,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), e, args[0]) },
	}
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", true, "Follow it until it is over. false: show it once.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "For how long it is followed. 0: until it is over.")
	return cmd
}

func (o *rolloutStatus) run(ctx context.Context, e *env, name string) error {
	c, pool, err := e.pool(ctx, name)
	if err != nil {
		return err
	}
	f := &rolloutFollower{e: e, c: c, pool: pool, said: map[string]string{}}
	if e.live {
		f.view = newRolloutView(e.ErrOut)
	}
	if err := f.list(ctx); err != nil {
		return err
	}
	if !o.watch {
		return e.print(poolTree(f.pool, f.sorted()))
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, &ExitError{Code: ExitWaitTimeout, Err: errors.New("--timeout is over; it continues")})
		defer cancel()
	}
	if f.view != nil {
		e.above = f.note
		defer func() { e.above = nil }()
	}
	return f.follow(ctx)
}

// rolloutFollower shows what happens to the hosts of a pool.
type rolloutFollower struct {
	e     *env
	c     *client
	pool  *v1alpha1.WindowsNodePool
	hosts map[string]*v1alpha1.WindowsInstance
	// version is the one that hosts are watched from.
	version string
	// view shows them on a terminal. Nil: there is none, and lines are added.
	view *rolloutView
	// said is what was shown last, by host; that of the pool has no name.
	said map[string]string
	// keys is what was shown last of the keys of the hosts, and waits the kinds of what they wait for.
	keys  string
	waits map[string]bool
	// behind is since when windows-controller has not observed the spec of the pool, and observed the generation that it had observed before.
	// Zero: it has observed it, or that is not seen. told says that this was said.
	behind   time.Time
	observed int64
	told     bool
}

// list reads the pool and its hosts.
func (f *rolloutFollower) list(ctx context.Context) error {
	pool, err := f.c.windows.WindowsNodePools(f.pool.Namespace).Get(ctx, f.pool.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	// What was read before stays if the rest cannot be read.
	hosts := map[string]*v1alpha1.WindowsInstance{}
	options := ofPool(f.pool.Name)
	options.Limit = listChunk
	for {
		list, err := f.c.windows.WindowsInstances(f.pool.Namespace).List(ctx, options)
		if err != nil {
			return err
		}
		for i := range list.Items {
			hosts[list.Items[i].Name] = &list.Items[i]
		}
		if options.Continue = list.Continue; options.Continue == "" {
			f.pool, f.hosts, f.version = pool, hosts, list.ResourceVersion
			return nil
		}
	}
}

// ofPool selects the hosts of a pool.
func ofPool(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.poolRef.name", name).String()}
}

func (f *rolloutFollower) sorted() []*v1alpha1.WindowsInstance {
	return slices.SortedFunc(maps.Values(f.hosts), func(a, b *v1alpha1.WindowsInstance) int { return strings.Compare(a.Name, b.Name) })
}

// follow shows every change until it is over. The pool and its hosts were read.
func (f *rolloutFollower) follow(ctx context.Context) error {
	current := true
	return keepLooking(ctx, func(ctx context.Context, seen func()) (over bool, err error) {
		if !current {
			if err := f.list(ctx); err != nil {
				return false, err
			}
		}
		current = false
		return f.look(ctx, seen)
	}, func(err error) {
		f.behind = time.Time{} // nobody knows for as long
		f.note("it continues, but cannot be seen at the moment: " + describeError(err))
	})
}

// look shows every change until it is over, or a watch ends.
func (f *rolloutFollower) look(ctx context.Context, seen func()) (over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := ofPool(f.pool.Name)
	options.ResourceVersion = f.version
	hosts, err := f.c.windows.WindowsInstances(f.pool.Namespace).Watch(ctx, options)
	if err != nil {
		return false, err
	}
	defer hosts.Stop()
	pools, err := f.c.windows.WindowsNodePools(f.pool.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", f.pool.Name).String(), ResourceVersion: f.pool.ResourceVersion,
	})
	if err != nil {
		return false, err
	}
	defer pools.Stop()
	seen()
	var ticks <-chan time.Time // nil waits for ever
	if f.view != nil {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		ticks = ticker.C
	}
	var finished, late <-chan time.Time
	verdict := rolloutGoesOn
	for changed := true; ; {
		f.show()
		if changed {
			late = f.late()
			if verdict, finished = rolloutVerdict(f.pool, f.sorted()), nil; verdict != rolloutGoesOn {
				finished = time.After(steady)
			}
		}
		var event watch.Event
		var open bool
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-finished:
			return true, f.conclude(verdict)
		case <-late:
			if f.told {
				return true, f.unobserved()
			}
			f.told = true
			f.note(fmt.Sprintf("%s: windows-controller has not observed its change for %s. %s", f.pool.Name, answersWithin, seeController))
			changed = true
			continue
		case <-ticks:
			changed = false
			continue
		case event, open = <-hosts.ResultChan():
		case event, open = <-pools.ResultChan():
		}
		changed = true
		if !open || event.Type == watch.Error {
			return false, nil
		}
		switch object := event.Object.(type) {
		case *v1alpha1.WindowsInstance:
			f.hosts[object.Name] = object
			if event.Type == watch.Deleted {
				delete(f.hosts, object.Name)
			}
		case *v1alpha1.WindowsNodePool:
			if f.pool = object; event.Type == watch.Deleted {
				return true, fmt.Errorf("windowsnodepool/%s was deleted", object.Name)
			}
		}
	}
}

// late receives when windows-controller should have observed the spec of the pool. Nil: it has, or it observes none because the pool is being deleted.
func (f *rolloutFollower) late() <-chan time.Time {
	switch observed := f.pool.Status.ObservedGeneration; {
	case observed == f.pool.Generation, !f.pool.DeletionTimestamp.IsZero():
		f.behind, f.told = time.Time{}, false
		return nil
	case f.behind.IsZero() || observed != f.observed: // it works if it has observed another one meanwhile
		f.behind, f.observed = time.Now(), observed
	}
	limit := answersWithin
	if f.told {
		limit = givenUpAfter
	}
	return time.After(time.Until(f.behind.Add(limit)))
}

// unobserved says that nobody waits for windows-controller any more.
func (f *rolloutFollower) unobserved() error {
	return fmt.Errorf("windowsnodepool/%s does not go on by itself: windows-controller has not observed its change for %s (metadata.generation is %d, status.observedGeneration %d). The change is recorded, and need not be repeated. %s",
		f.pool.Name, givenUpAfter, f.pool.Generation, f.pool.Status.ObservedGeneration, seeController)
}

// show shows how it is now on a terminal, and elsewhere says what is new.
func (f *rolloutFollower) show() {
	hosts := f.sorted()
	keys := strings.Join(keyLines(hosts), "\n")
	if f.view != nil {
		f.keys = keys
		f.view.draw(func(height int) []string { return viewLines(f.pool, hosts, height, time.Now()) })
		return
	}
	for _, host := range hosts {
		if text := stateOf(host, f.pool, "").text; f.said[host.Name] != text {
			f.said[host.Name] = text
			f.e.note("%s: %s", host.Name, text)
		}
	}
	if text := countsOf(f.pool, hosts); f.said[""] != text {
		f.said[""] = text
		f.e.note("%s: %s", f.pool.Name, text)
	}
	if f.keys != keys {
		if f.keys = keys; keys != "" {
			f.e.note("%s", keys)
		}
	}
	groups := waitGroups(f.pool.Status.BlockedBy, hosts)
	if len(groups) == 0 { // between two steps none may wait for a moment
		return
	}
	said := f.waits
	f.waits = map[string]bool{}
	for _, g := range groups {
		if f.waits[g.kind()] = true; !said[g.kind()] {
			f.e.note("%s", g)
		}
	}
}

// note says something besides what is shown.
func (f *rolloutFollower) note(text string) {
	if f.view == nil {
		f.e.note("%s", text)
		return
	}
	f.view.note(text)
	f.show()
}

// countsOf is how far a pool is.
func countsOf(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) string {
	text := fmt.Sprintf("%d of %d hosts are up to date", pool.Status.UpdatedReplicas, pool.Status.Replicas)
	of, restarted := 0, 0
	for _, host := range hosts {
		if host.DeletionTimestamp.IsZero() && host.Status.Node != nil {
			if of++; !host.Status.AwaitsRestart(pool) {
				restarted++
			}
		}
	}
	if restarted < of {
		text += fmt.Sprintf(", %d of %d are restarted", restarted, of)
	}
	return text
}

// conclude says how it ended.
func (f *rolloutFollower) conclude(verdict rolloutEnd) error {
	if e, back := f.e, f.pool.RolledBack(f.pool.Status.UpdateRevision); verdict == rolloutDone {
		text := fmt.Sprintf("windowsnodepool/%s: all %d hosts are up to date\n", f.pool.Name, len(f.hosts))
		if back.ByPerson() {
			text = fmt.Sprintf("windowsnodepool/%s: all %d hosts have gone back. %s\n", f.pool.Name, len(f.hosts), pinText(f.pool, back))
		}
		text += f.outstanding()
		if f.keys != "" { // keys are no part of a rollout: they restart nothing, and may wait for hosts that are down
			text += fmt.Sprintf("%s\nTo see which hosts: kubectl windows describe wnp/%s -n %s\n", f.keys, f.pool.Name, f.pool.Namespace)
		}
		return e.print(text)
	}
	why := f.pool.Status.BlockedBy
	if f.pool.Spec.Paused {
		why = fmt.Sprintf("it is paused: kubectl windows rollout resume %s -n %s", f.pool.Name, f.pool.Namespace)
	}
	return fmt.Errorf("windowsnodepool/%s does not go on by itself: %s", f.pool.Name, why)
}

// outstanding says what the hosts still wait for that is no part of the rollout. Empty: nothing.
func (f *rolloutFollower) outstanding() string {
	install := f.pool.Spec.WindowsUpdates.Install
	var updates, failed, restarts []string
	for _, host := range f.sorted() {
		if !host.DeletionTimestamp.IsZero() {
			continue
		}
		switch waiting, lacks := updatesOutstanding(host.Status.WindowsUpdates, install); {
		case waiting > 0:
			updates = append(updates, host.Name)
		case len(lacks) > 0:
			failed = append(failed, host.Name)
		}
		if f.pool.Spec.Restarts.Policy == v1alpha1.RestartWhenPending && meta.IsStatusConditionTrue(host.Status.Conditions, v1alpha1.ConditionRebootRequired) {
			restarts = append(restarts, host.Name)
		}
	}
	text := ""
	for _, of := range []struct {
		what  string
		hosts []string
	}{
		{"Updates of Windows are to be installed", updates},
		{"Updates of Windows could not be installed", failed},
		{"Windows waits for a restart", restarts},
	} {
		if n := len(of.hosts); n > 0 {
			text += fmt.Sprintf("%s on %s: %s\n", of.what, words.Count(n, "host"), words.Enumerate(of.hosts, maxOutstanding))
		}
	}
	if blocked := f.pool.Status.BlockedBy; blocked != "" {
		text += blocked + "\n"
	}
	return text
}

// rolloutEnd is how it ended.
type rolloutEnd int

const (
	rolloutGoesOn rolloutEnd = iota
	rolloutDone
	// rolloutStuck: somebody has to do something, or a time has to come.
	rolloutStuck
)

// rolloutVerdict says whether it is over. That hosts wait for something else than what the pool rolls out does not matter: the condition
// Updating tells the one from the other.
func rolloutVerdict(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) rolloutEnd {
	updating := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionUpdating)
	if updating == nil || updating.Status == metav1.ConditionTrue || pool.Status.ObservedGeneration != pool.Generation {
		return rolloutGoesOn
	}
	outstanding := !meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionUpdated)
	for _, host := range hosts {
		outstanding = outstanding || awaitsRestart(host, pool)
	}
	switch {
	case !outstanding && (pool.Status.BlockedBy == "" || updating.Reason == v1alpha1.ReasonAllUpdated || updating.Reason == v1alpha1.ReasonUndone):
		return rolloutDone
	case pool.Spec.Paused || pool.Status.BlockedBy != "":
		return rolloutStuck
	}
	return rolloutGoesOn
}

// awaitsRestart says whether a host is still to be restarted as its pool asks for.
func awaitsRestart(host *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) bool {
	return host.DeletionTimestamp.IsZero() && host.Status.AwaitsRestart(pool)
}

// hostState is what happens to a host.
type hostState struct {
	// text says it, without anything that changes with time.
	text string
	// active: something is done to it. outstanding: something is not, and will be. Neither: it has all that its pool wants, ready or not.
	active, outstanding bool
}

// stateOf is what happens to a host. why is what it waits for, as status.blockedBy says it. Empty: nothing, or that is said elsewhere.
func stateOf(host *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool, why string) hostState {
	status := &host.Status
	switch {
	case waitsForSlot(status.Operation):
		text := progressText(status.Operation, false)
		if why != "" {
			text = nounOf(status.Operation.Type) + " " + waitText(why)
		}
		return hostState{text: text, outstanding: true}
	case status.Operation.Active():
		return hostState{text: progressText(status.Operation, false), active: true}
	case !host.DeletionTimestamp.IsZero():
		text := "is going to be removed"
		if why != "" {
			text += ", " + waitText(why)
		}
		return hostState{text: text, outstanding: true}
	}
	text, outstanding := revisionText(host, pool)
	if text == "outdated" {
		text += whyOutdated(status, why != "")
	}
	if awaitsRestart(host, pool) {
		text += ", to be restarted"
		outstanding = true
	}
	updates := updatesText(status.WindowsUpdates, pool.Spec.WindowsUpdates.Install)
	text += updates
	if key := rotationLine(status); key != "" {
		text += ", " + key
	}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); c == nil || c.Status != metav1.ConditionTrue {
		text += ", not ready"
		if c != nil && c.Message != "" {
			text += ": " + strings.TrimSuffix(words.OneLine(c.Message), ".")
		}
	}
	if op := status.FailedRestartFor(pool); op != nil {
		text += fmt.Sprintf(", %s failed: %s", attemptOf(op), words.OneLine(words.FirstSentence(op.Message)))
	}
	if why != "" {
		text += ", " + waitText(why)
	}
	return hostState{text: text, outstanding: outstanding || updates != ""}
}

// waitsForSlot says whether an operation only waits until its host may be disrupted or removed.
func waitsForSlot(op *v1alpha1.Operation) bool {
	return op.Active() && !op.Admitted() && op.CancelRequestedBy == "" && op.At(v1alpha1.StepWaitForSlot)
}

// attemptOf is what an operation by which the controller restarts a host was to do.
func attemptOf(op *v1alpha1.Operation) string {
	if op.Cause == v1alpha1.CauseWindowsUpdates {
		return "the last attempt to install updates of Windows"
	}
	return "its last restart"
}

// revisionText is how far a host is with what its pool rolls out. outstanding: there is more to come.
func revisionText(host *v1alpha1.WindowsInstance, pool *v1alpha1.WindowsNodePool) (text string, outstanding bool) {
	status := &host.Status
	switch {
	case status.DesiredRevision == "":
		return "not known yet", true
	case status.CurrentRevision == "":
		return "not configured", true
	case status.CurrentRevision != status.DesiredRevision:
		return "outdated", true
	}
	switch back := pool.RolledBack(pool.Status.UpdateRevision); {
	case back == nil:
	case back.Keeps(host.Name):
		return "keeps a revision that was undone", true
	case back.ByPerson() && status.PoolRevision == back.To:
		return "gone back", false
	case back.ByPerson():
		return "outdated", true
	case back.Broke(host.Name):
		return "rolled back", true
	case status.PoolRevision != back.Revision:
		return "kept from a revision that was rolled back", true
	}
	return "up to date", false
}

// updatesText is what a host lacks of the updates of Windows that its pool wants. Empty: nothing.
func updatesText(u *v1alpha1.WindowsUpdatesStatus, install v1alpha1.WindowsUpdatesInstall) string {
	waiting, failed := updatesOutstanding(u, install)
	text := ""
	if waiting > 0 {
		text = fmt.Sprintf(", updates of Windows to be installed: %d", waiting)
	}
	if len(failed) > 0 {
		text += ", updates of Windows that could not be installed: " + strings.Join(failed, ", ")
	}
	return text
}

// updatesOutstanding is how many updates of Windows that its pool wants a host lacks, and which others could not be installed.
func updatesOutstanding(u *v1alpha1.WindowsUpdatesStatus, install v1alpha1.WindowsUpdatesInstall) (waiting int, failed []string) {
	if u == nil {
		return 0, nil
	}
	for _, f := range u.FailedOf(install) {
		failed = append(failed, f.Name)
	}
	return max(0, u.PendingOf(install)-len(failed)), failed
}

// whyOutdated is what the condition UpToDate of a host says beside the revisions: what keeps it from its update, unless it is known more exactly what
// it waits for, or why that failed. Empty: nothing.
func whyOutdated(status *v1alpha1.WindowsInstanceStatus, known bool) string {
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionUpToDate)
	if c == nil || c.Status != metav1.ConditionFalse || (c.Reason != v1alpha1.ReasonRevisionOutdated || known) && c.Reason != v1alpha1.ReasonUpdateFailed && c.Reason != v1alpha1.ReasonUpdateCanceled {
		return ""
	}
	if _, why, found := strings.Cut(c.Message, ". "); found { // the first sentence has the revisions
		return ": " + strings.TrimSuffix(words.OneLine(why), ".")
	}
	return ""
}

// headLines are the first lines about a pool: how far it is.
func headLines(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) []string {
	text := fmt.Sprintf("%s: %s, %d ready", pool.Name, countsOf(pool, hosts), pool.Status.ReadyReplicas)
	if pool.Spec.Paused {
		text += ", paused"
	}
	lines := []string{text}
	if back := pool.RolledBack(pool.Status.UpdateRevision); back.ByPerson() {
		lines = append(lines, strings.Split(pinText(pool, back), "\n")...)
	}
	return append(lines, keyLines(hosts)...)
}

// poolTree is a pool with its hosts, and what they wait for.
func poolTree(pool *v1alpha1.WindowsNodePool, hosts []*v1alpha1.WindowsInstance) string {
	var b strings.Builder
	for _, line := range headLines(pool, hosts) {
		b.WriteString(line + "\n")
	}
	why := whyWaits(pool, hosts)
	rows := make([][]string, 0, len(hosts))
	for i, host := range hosts {
		branch := "├─"
		if i == len(hosts)-1 {
			branch = "└─"
		}
		rows = append(rows, []string{branch + " " + host.Name, stateOf(host, pool, why[host.Name]).text})
	}
	b.WriteString(columns(rows))
	if blocked := pool.Status.BlockedBy; blocked != "" {
		b.WriteString("\nWaiting:\n")
		for line := range strings.Lines(blocked) {
			b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	return b.String()
}
