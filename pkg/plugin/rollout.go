// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// poolsResource is the resource of WindowsNodePool.
const poolsResource = "windowsnodepools"

func newRollout(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout (status | pause | resume | restart | history | undo) POOL",
		Short: "See and steer what happens to the hosts of a pool",
		Long: `See how far a pool is with the updates and restarts of its hosts, and steer them, as kubectl rollout
does for Deployments. How many hosts are changed at a time, and when, is in spec.updateStrategy of the
WindowsNodePool.`,
		Example: `  kubectl windows rollout status windows-instances
  kubectl windows rollout restart windows-instances`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRolloutStatus(e), newRolloutPause(e), newRolloutResume(e), newRolloutRestart(e), newRolloutHistory(e), newRolloutUndo(e))
	return cmd
}

// poolChange is a command that changes the spec of a pool.
type poolChange struct {
	e      *env
	dryRun string
	// did is what is said when it was done.
	did string
	// rest is what is said besides, as there is more that could be done. Nil, or an empty text: nothing.
	rest func(pool *v1alpha1.WindowsNodePool) string
	// spec returns what is to be changed. Nil: nothing is.
	spec func(pool *v1alpha1.WindowsNodePool) (map[string]any, error)
	// read finds out what spec goes by besides the pool. Nil: nothing.
	read func(ctx context.Context, c *client, pool *v1alpha1.WindowsNodePool) error
}

func (p *poolChange) command(use, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " POOL", Short: short, Long: long,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.e.completePool,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args[0]) },
	}
	addDryRun(cmd, &p.dryRun, "none, or server: everything is checked, and nothing is changed.")
	return cmd
}

func (p *poolChange) run(ctx context.Context, name string) error {
	e := p.e
	dryRun, err := dryRunOf(p.dryRun)
	if err != nil {
		return err
	}
	c, pool, err := e.pool(ctx, name)
	if err != nil {
		return err
	}
	if p.read != nil {
		if err := p.read(ctx, c, pool); err != nil {
			return err
		}
	}
	spec, err := p.spec(pool)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pool.UID}, "spec": spec})
	if err != nil {
		return fmt.Errorf("making the change: %w", err)
	}
	if _, err := c.windows.WindowsNodePools(pool.Namespace).Patch(ctx, pool.Name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun, FieldValidation: strictly}); err != nil {
		return err
	}
	suffix := ""
	if dryRun != nil {
		suffix = " (server dry run)"
	}
	text := fmt.Sprintf("windowsnodepool/%s %s%s\n", pool.Name, p.did, suffix)
	if p.rest != nil {
		text += p.rest(pool)
	}
	return e.print(text)
}

func newRolloutPause(e *env) *cobra.Command {
	p := &poolChange{e: e, did: "paused", spec: func(pool *v1alpha1.WindowsNodePool) (map[string]any, error) {
		if pool.Spec.Paused {
			return nil, fmt.Errorf("windowsnodepool/%s is paused already", pool.Name)
		}
		return map[string]any{"paused": true}, nil
	}}
	return p.command("pause", "Have the controller leave the hosts of a pool alone",
		`Set spec.paused of a pool: from now on the controller changes nothing on its hosts. What it is doing on
one is completed; to end that as well: kubectl windows cancel NAME.`)
}

func newRolloutResume(e *env) *cobra.Command {
	var unconfirmed *metav1.Time
	p := &poolChange{e: e, did: "resumed", spec: func(pool *v1alpha1.WindowsNodePool) (map[string]any, error) {
		back, rolling := pool.RolledBack(pool.Status.UpdateRevision), map[string]any{}
		// Not by the clock of this machine: what breaks hosts from the rollback on, by the clock of the controller, counts again.
		at := unconfirmed
		if back != nil && (at == nil || at.Before(&back.Time)) {
			at = &back.Time
		}
		if at != nil {
			rolling["resumedAt"] = at.UTC().Format(time.RFC3339)
		}
		if pool.Spec.UpdateStrategy.RollingUpdate.Undo != nil {
			rolling["undo"] = nil
		}
		switch {
		case pool.Spec.Paused:
			return map[string]any{"paused": false}, nil
		case len(rolling) > 0:
			return map[string]any{"updateStrategy": map[string]any{"rollingUpdate": rolling}}, nil
		}
		return nil, fmt.Errorf("windowsnodepool/%s is not paused, nothing was rolled back or undone, and none of its hosts waits for a confirmation", pool.Name)
	}}
	p.read = func(ctx context.Context, c *client, pool *v1alpha1.WindowsNodePool) (err error) {
		unconfirmed, err = unconfirmedSince(ctx, c, pool)
		return err
	}
	p.rest = func(pool *v1alpha1.WindowsNodePool) string {
		back := pool.RolledBack(pool.Status.UpdateRevision)
		switch {
		case !pool.Spec.Paused:
			return describeResumed(back, unconfirmed != nil)
		case back == nil:
			return describeUnpaused(pool, unconfirmed != nil)
		}
		stays := "rolled back, as it broke hosts"
		if back.ByPerson() {
			stays = "undone, as " + back.RequestedBy + " has asked for"
		}
		return fmt.Sprintf("Revision %s stays %s. To have hosts get it again: kubectl windows rollout resume %s -n %s\n",
			back.Revision, stays, pool.Name, pool.Namespace)
	}
	return p.command("resume", "End the pause of a pool, or have its hosts get what was rolled back, undone, or not confirmed",
		`Set spec.paused of a pool to false: the controller goes on with its hosts. If the pool is not paused, and its revision was
rolled back because it broke hosts, or undone by somebody (status.rolledBack), they get it again
(spec.updateStrategy.rollingUpdate.resumedAt). So do hosts that were configured before their instances or the pool were made, and
wait for a confirmation (status.blockedBy). A pool that is paused and rolled back takes two commands: the end of a pause alone
gives no host what broke others.`)
}

// undoRefusal is the condition that says why a pool does not go back to the revision that somebody has asked for. Nil: none does.
func undoRefusal(pool *v1alpha1.WindowsNodePool) *metav1.Condition {
	if c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionDegraded); c != nil && c.Reason == v1alpha1.ReasonUndoRefused {
		return c
	}
	return nil
}

// describeResumed says what hosts get when a pool is resumed that is not paused. back is what was rolled back or undone, nil if nothing was.
func describeResumed(back *v1alpha1.PoolRollback, unconfirmed bool) string {
	text := ""
	if back != nil {
		text = fmt.Sprintf("Hosts get revision %s again, %s.\n", back.Revision, back.Past())
	}
	if unconfirmed {
		text += "Hosts that waited for a confirmation of what they are to have get what the pool says.\n"
	}
	return text
}

// describeUnpaused says what hosts get of a pool that is not paused any more, of which nothing was rolled back or undone.
func describeUnpaused(pool *v1alpha1.WindowsNodePool, unconfirmed bool) string {
	text := ""
	if pool.Spec.UpdateStrategy.RollingUpdate.Undo != nil && undoRefusal(pool) != nil {
		text = fmt.Sprintf("Somebody has asked to go back to another revision, which is refused (condition Degraded): hosts get revision %s.\n", pool.Status.UpdateRevision)
	}
	if unconfirmed {
		text += fmt.Sprintf("Hosts wait for a confirmation of what they are to have (status.blockedBy). To have them get what the pool says: kubectl windows rollout resume %s -n %s\n", pool.Name, pool.Namespace)
	}
	return text
}

// unconfirmedSince is since when the hosts of a pool wait for a confirmation: that of the last one. Nil: none does.
func unconfirmedSince(ctx context.Context, c *client, pool *v1alpha1.WindowsNodePool) (*metav1.Time, error) {
	list, err := c.windows.WindowsInstances(pool.Namespace).List(ctx, ofPool(pool.Name))
	switch {
	case apierrors.IsForbidden(err): // who may not see hosts may still end a pause
		return nil, nil //nolint:nilnil // then nothing is known of them
	case err != nil:
		return nil, fmt.Errorf("finding out which hosts of the pool wait: %w", err)
	}
	var last *metav1.Time
	for i := range list.Items {
		if since := list.Items[i].Status.UnconfirmedSince; last == nil || last.Before(since) {
			last = since
		}
	}
	return last, nil
}

func newRolloutRestart(e *env) *cobra.Command {
	var now time.Time
	p := &poolChange{e: e, did: "restarted", spec: func(pool *v1alpha1.WindowsNodePool) (map[string]any, error) {
		if pool.Spec.Paused {
			return nil, fmt.Errorf("windowsnodepool/%s is paused: kubectl windows rollout resume %s -n %s", pool.Name, pool.Name, pool.Namespace)
		}
		return map[string]any{"restarts": map[string]any{"after": now.UTC().Format(time.RFC3339)}}, nil
	}}
	p.read = func(ctx context.Context, c *client, pool *v1alpha1.WindowsNodePool) (err error) {
		now, err = c.serverTime(ctx, pool)
		return err
	}
	return p.command("restart", "Restart Windows on all hosts of a pool, one after the other",
		`Have Windows restarted on every host of a pool that was last restarted before now, by the clock of the API
server: its Node is cordoned and drained, and uncordoned when it is ready again. The pool bounds how many hosts
are out of service at a time, and when (spec.updateStrategy); hosts that it updates on request are updated as
well. It returns at once; to follow it: kubectl windows rollout status POOL.`)
}

// serverTime is what time it is for the server that keeps a pool. The clock of this machine may differ: hosts would be restarted that were
// just now, or none before a time to come.
func (c *client) serverTime(ctx context.Context, pool *v1alpha1.WindowsNodePool) (time.Time, error) {
	url := c.windows.RESTClient().Get().Namespace(pool.Namespace).Resource(poolsResource).Name(pool.Name).URL()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), nil)
	if err != nil {
		return time.Time{}, fmt.Errorf("finding out what time it is: %w", err)
	}
	to, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return time.Time{}, fmt.Errorf("making a client: %w", err)
	}
	response, err := to.Do(request)
	if err != nil {
		return time.Time{}, fmt.Errorf("finding out what time it is for the API server: %w", err)
	}
	if err := response.Body.Close(); err != nil {
		return time.Time{}, fmt.Errorf("finding out what time it is for the API server: %w", err)
	}
	now, err := http.ParseTime(response.Header.Get("Date")) // RFC 9110: every server that has a clock sends it
	if err != nil {
		return time.Time{}, fmt.Errorf("the API server does not say what time it is (HTTP header Date): %w. Set spec.restarts.after of the pool yourself: kubectl edit wnp %s -n %s", err, pool.Name, pool.Namespace)
	}
	return now, nil
}

// pool is the pool that a user names.
func (e *env) pool(ctx context.Context, name string) (*client, *v1alpha1.WindowsNodePool, error) {
	c, err := e.client()
	if err != nil {
		return nil, nil, err
	}
	name, ok := poolName(name)
	if !ok {
		return nil, nil, errors.New("name a WindowsNodePool, as windows-instances")
	}
	pool, err := c.windows.WindowsNodePools(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	return c, pool, nil
}

// namesPool says whether an argument names a pool by its kind.
func namesPool(arg string) bool {
	_, ok := poolName(arg)
	return ok && strings.Contains(arg, "/")
}

// poolName takes the kind from the name of a pool. It reports false for a name with another kind.
func poolName(arg string) (name string, ok bool) {
	kind, name, found := strings.Cut(arg, "/")
	if !found {
		return arg, true
	}
	switch kind {
	case "wnp", "windowsnodepool", poolsResource, poolsResource + "." + v1alpha1.GroupName, "windowsnodepool." + v1alpha1.GroupName:
		return name, true
	}
	return "", false
}
