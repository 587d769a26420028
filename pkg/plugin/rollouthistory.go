// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

func newRolloutHistory(e *env) *cobra.Command {
	var revision int64
	cmd := &cobra.Command{
		Use:   "history POOL",
		Short: "Show the revisions that a pool had",
		Long: `Show which revisions a pool had, the newest one last: its template (spec.template) and the programs of its hosts. The
controller keeps ten, and those that hosts have. They are ControllerRevisions, which it needs the rights to get and list for.`,
		Example: `  kubectl windows rollout history windows-instances
  kubectl windows rollout history windows-instances --revision=3`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: e.completePool,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, pool, revisions, err := e.revisions(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if revision == 0 {
				return e.print(formatHistory(pool, revisions, time.Now()))
			}
			found, err := revisionOfPool(pool, revisions, revision)
			if err != nil {
				return err
			}
			template, err := templateOf(found)
			if err != nil {
				return err
			}
			text, err := yaml.JSONToYAML(template)
			if err != nil {
				return fmt.Errorf("printing the template: %w", err)
			}
			return e.print(string(text))
		},
	}
	cmd.Flags().Int64Var(&revision, "revision", 0, "Show the template of this revision.")
	return cmd
}

func newRolloutUndo(e *env) *cobra.Command {
	var revision int64
	var dryRun string
	cmd := &cobra.Command{
		Use:   "undo POOL",
		Short: "Give a pool the template that it had before",
		Long: `Set the template of a pool (spec.template) to that of an earlier revision, by default the one before. Its hosts are
updated with it as with any change; those that the newer one broke come first. The programs of hosts do not go
back with it, which come with the payload, nor do the credentials that they are logged in to with.`,
		Example: `  kubectl windows rollout undo windows-instances
  kubectl windows rollout undo windows-instances --to-revision=3`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: e.completePool,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.undo(cmd.Context(), args[0], revision, dryRun)
		},
	}
	cmd.Flags().Int64Var(&revision, "to-revision", 0, "The revision to go back to. 0: the one before.")
	addDryRun(cmd, &dryRun, "none, or server: everything is checked, and nothing is changed.")
	return cmd
}

func (e *env) undo(ctx context.Context, name string, number int64, dryRunFlag string) error {
	dryRun, err := dryRunOf(dryRunFlag)
	if err != nil {
		return err
	}
	c, pool, revisions, err := e.revisions(ctx, name)
	if err != nil {
		return err
	}
	found, err := revisionOfPool(pool, revisions, number)
	if err != nil {
		return err
	}
	if found.Name == pool.Status.UpdateRevision || hasTemplate(pool, found) {
		return fmt.Errorf("windowsnodepool/%s has the template of revision %d already", pool.Name, found.Revision)
	}
	template, err := templateOf(found)
	if err != nil {
		return err
	}
	if template, err = keepCredentials(template, pool); err != nil {
		return err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": pool.UID},
		{"op": "test", "path": "/metadata/generation", "value": pool.Generation}, // nothing that somebody has just changed is lost
		{"op": "add", "path": "/spec/template", "value": template},
	})
	if err != nil {
		return fmt.Errorf("making the change: %w", err)
	}
	if _, err := c.windows.WindowsNodePools(pool.Namespace).Patch(ctx, pool.Name, types.JSONPatchType, patch, metav1.PatchOptions{DryRun: dryRun}); err != nil {
		return err
	}
	suffix := ""
	if dryRun != nil {
		suffix = " (server dry run)"
	}
	return e.print(fmt.Sprintf("windowsnodepool/%s rolled back to revision %d%s\n", pool.Name, found.Revision, suffix))
}

// revisions are those of a pool that a user names, the newest one last.
func (e *env) revisions(ctx context.Context, name string) (*client, *v1alpha1.WindowsNodePool, []appsv1.ControllerRevision, error) {
	c, pool, err := e.pool(ctx, name)
	if err != nil {
		return nil, nil, nil, err
	}
	kube, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making a client: %w", err)
	}
	list, err := kube.AppsV1().ControllerRevisions(pool.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.Set{v1alpha1.PoolLabel: pool.Name}.String()})
	if err != nil {
		return nil, nil, nil, err
	}
	revisions := v1alpha1.SortRevisions(pool, list.Items)
	if len(revisions) == 0 {
		return nil, nil, nil, fmt.Errorf("windowsnodepool/%s has no revisions yet: windows-controller makes them", pool.Name)
	}
	return c, pool, revisions, nil
}

// revisionOfPool finds a revision by its number. 0 is the one before that of now.
func revisionOfPool(pool *v1alpha1.WindowsNodePool, revisions []appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	if number != 0 {
		for i := range revisions {
			if revisions[i].Revision == number {
				return &revisions[i], nil
			}
		}
		return nil, fmt.Errorf("windowsnodepool/%s has no revision %d: kubectl windows rollout history %s -n %s", pool.Name, number, pool.Name, pool.Namespace)
	}
	for i := range slices.Backward(revisions) {
		if r := &revisions[i]; r.Name != pool.Status.UpdateRevision && !hasTemplate(pool, r) {
			return r, nil
		}
	}
	err := fmt.Errorf("windowsnodepool/%s has had no other template", pool.Name)
	if len(revisions) > 1 {
		err = fmt.Errorf("%w: its revisions differ in the programs of their hosts, which come with the payload of windows-controller; install the earlier one to go back", err)
	}
	return nil, err
}

// templateOf is the template in a revision.
func templateOf(revision *appsv1.ControllerRevision) (json.RawMessage, error) {
	var data struct {
		Spec struct {
			Template json.RawMessage `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s: %w", revision.Name, err)
	}
	if len(data.Spec.Template) == 0 {
		return nil, errors.New("ControllerRevision " + revision.Name + " has no template")
	}
	return data.Spec.Template, nil
}

// hasTemplate says whether a pool has what is in a revision. Releases before had other names for the same.
func hasTemplate(pool *v1alpha1.WindowsNodePool, revision *appsv1.ControllerRevision) bool {
	text, err := templateOf(revision)
	if err != nil {
		return false
	}
	var template v1alpha1.PoolTemplate
	if err := json.Unmarshal(text, &template); err != nil {
		return false
	}
	template.CredentialsSecretRef, template.Bastion = pool.Spec.Template.CredentialsSecretRef, pool.Spec.Template.Bastion
	return equality.Semantic.DeepEqual(template, pool.Spec.Template)
}

// keepCredentials returns a template with the credentials, and the bastion, that the pool has now: going back must not bring back a key
// that somebody has replaced. Releases before kept them in revisions.
func keepCredentials(template json.RawMessage, pool *v1alpha1.WindowsNodePool) (json.RawMessage, error) {
	fields := map[string]any{}
	if err := json.Unmarshal(template, &fields); err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	delete(fields, "credentialsSecretRef")
	if ref := pool.Spec.Template.CredentialsSecretRef; ref != nil {
		fields["credentialsSecretRef"] = ref
	}
	delete(fields, "bastion")
	if bastion := pool.Spec.Template.Bastion; bastion != nil {
		fields["bastion"] = bastion
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("writing the template: %w", err)
	}
	return text, nil
}

// formatHistory lists revisions.
func formatHistory(pool *v1alpha1.WindowsNodePool, revisions []appsv1.ControllerRevision, now time.Time) string {
	rows := [][]string{{"REVISION", "AGE", "NAME", "STATE"}}
	for _, r := range revisions {
		state := ""
		switch r.Name {
		case pool.Status.UpdateRevision:
			state = "the present one"
			switch {
			case pool.RolledBack(r.Name) != nil:
				state += ", rolled back"
			case r.Name != pool.Status.CurrentRevision:
				state += ", not on all hosts"
			}
		case pool.Status.CurrentRevision:
			state = "the last that all hosts had"
		}
		rows = append(rows, []string{fmt.Sprint(r.Revision), ago(r.CreationTimestamp.Time, now), r.Name, state})
	}
	return formatTable(rows, false)
}
