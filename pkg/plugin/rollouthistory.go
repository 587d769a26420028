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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	list, err := kube.AppsV1().ControllerRevisions(pool.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.Set(pool.RevisionLabels()).String()})
	if err != nil {
		return nil, nil, nil, err
	}
	revisions := v1alpha1.SortRevisions(pool, list.Items)
	if len(revisions) == 0 {
		return nil, nil, nil, fmt.Errorf("windowsnodepool/%s has no revisions yet: windows-controller makes them", pool.Name)
	}
	return c, pool, revisions, nil
}

// revisionOfPool finds a revision by its number.
func revisionOfPool(pool *v1alpha1.WindowsNodePool, revisions []appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	for i := range revisions {
		if revisions[i].Revision == number {
			return &revisions[i], nil
		}
	}
	return nil, fmt.Errorf("windowsnodepool/%s has no revision %d: kubectl windows rollout history %s -n %s", pool.Name, number, pool.Name, pool.Namespace)
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

// formatHistory lists revisions.
func formatHistory(pool *v1alpha1.WindowsNodePool, revisions []appsv1.ControllerRevision, now time.Time) string {
	rows, back := [][]string{{"REVISION", "AGE", "NAME", "STATE"}}, pool.RolledBack(pool.Status.UpdateRevision)
	for _, r := range revisions {
		state := ""
		switch {
		case r.Name == pool.Status.UpdateRevision:
			state = "the present one"
			switch {
			case back.ByPerson():
				state += ", undone"
			case back != nil:
				state += ", rolled back"
			case r.Name != pool.Status.CurrentRevision:
				state += ", not on all hosts"
			}
		case back.ByPerson() && r.Name == back.To:
			state = "the pool is pinned to it"
		case r.Name == pool.Status.CurrentRevision:
			state = "the last that all hosts had"
		case slices.Contains(pool.Status.WorkedRevisions, r.Name):
			state = "all hosts had it"
		}
		rows = append(rows, []string{fmt.Sprint(r.Revision), ago(r.CreationTimestamp.Time, now), r.Name, state})
	}
	text := formatTable(rows, false)
	if back.ByPerson() {
		text += "\n" + pinText(pool, back) + "\n"
	}
	return text
}
