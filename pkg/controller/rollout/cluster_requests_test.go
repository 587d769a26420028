// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// asConfigured are the annotations of a Node that was configured and asks for nothing.
func asConfigured() map[string]string {
	return map[string]string{wmco.VersionAnnotation: "v1", v1alpha1.WrittenVersionAnnotation: "v1"}
}

// askForRestart has somebody ask for a restart by an annotation of a Node, or take that back.
func (c *cluster) askForRestart(m *member) {
	if m.node == nil {
		return
	}
	asks := object.AsksForRestart(m.node)
	if !asks {
		m.restartAsked = time.Now().String()
	}
	c.editNode(m, func(n *corev1.Node) {
		if n.Annotations[wmco.RebootRequiredAnnotation] = ""; asks {
			delete(n.Annotations, wmco.RebootRequiredAnnotation)
		}
	})
}

// askForConfiguration has somebody remove or change the version of a Node, or write it again.
func (c *cluster) askForConfiguration(m *member) {
	if m.node == nil {
		return
	}
	version := "v1"
	if !object.AsksForConfiguration(m.node) {
		version, m.configurationAsked = pick(c, "version", "", "theirs"), time.Now().String()
	}
	c.editNode(m, func(n *corev1.Node) {
		if n.Annotations[wmco.VersionAnnotation] = version; version == "" {
			delete(n.Annotations, wmco.VersionAnnotation)
		}
	})
}

// fulfillRestart has the Node of a host that has restarted not ask for that any more, whoever wanted it.
func (c *cluster) fulfillRestart(m *member) {
	if m.node != nil && object.AsksForRestart(m.node) {
		c.askForRestart(m)
	}
}

// fulfillConfiguration has the Node of a host that was configured not ask for that any more.
func (c *cluster) fulfillConfiguration(m *member) {
	if m.node != nil && object.AsksForConfiguration(m.node) {
		c.askForConfiguration(m)
	}
}

// fulfillLate has the Node of a host not ask for the restart any more that it was too late with for anybody to see it, and says whether it did.
func (c *cluster) fulfillLate(m *member) bool {
	made := m.restartAsked == m.late && m.node != nil && object.AsksForRestart(m.node)
	if made {
		c.fulfillRestart(m)
	}
	return made
}

// judgeRequest fails the test if something is done for an annotation of a Node that nobody asks for, or too soon after what was done for one before: that
// takes ten minutes, twice as long each time, and a day at the most.
func (c *cluster) judgeRequest(m *member, op *v1alpha1.Operation) {
	annotated := func(op *v1alpha1.Operation) bool {
		return op.Cause == v1alpha1.CauseRestartAnnotated || op.Cause == v1alpha1.CauseVersionChanged
	}
	if !annotated(op) {
		return
	}
	if asks := map[v1alpha1.OperationCause]bool{v1alpha1.CauseRestartAnnotated: object.AsksForRestart(m.node), v1alpha1.CauseVersionChanged: object.AsksForConfiguration(m.node)}; !asks[op.Cause] {
		c.t.Fatalf("nobody asks for what %s gets: %+v", m.key, op)
	}
	const day = 24 * time.Hour
	var last time.Time
	pause, before := 5*time.Minute, time.Now()
	for _, o := range m.instance.Status.Operations() {
		if !annotated(o) {
			continue
		}
		if before.Sub(o.FinishedAt.Time) > 2*day { // it was quiet for long
			break
		}
		if last.IsZero() {
			last = o.FinishedAt.Time
		}
		before, pause = o.FinishedAt.Time, min(2*pause, day)
	}
	if time.Since(last) < pause {
		c.t.Fatalf("%s gets %+v, and annotations of its Node have had something done until %s", m.key, op, last)
	}
}

// updateTo is the name of what an update to a revision restarts Windows for.
func updateTo(revision string) string { return "update " + revision }

// configuredFor is the name of what a configuration restarts Windows for: its revision, unless a person or an annotation asks for what the host has.
func (m *member) configuredFor(op *v1alpha1.Operation) string {
	switch {
	case !op.ByController():
		return updateTo(op.ID)
	case op.Cause == v1alpha1.CauseVersionChanged && m.has == op.Revision:
		return string(op.Cause) + m.configurationAsked
	}
	return updateTo(op.Revision)
}

// forgetUpdates forgets for which updates but the last one Windows was restarted: the host has something else since, and may get it again.
func (m *member) forgetUpdates(last string) {
	maps.DeleteFunc(m.boots, func(why string, _ int) bool { return why != last && strings.HasPrefix(why, updateTo("")) })
}
