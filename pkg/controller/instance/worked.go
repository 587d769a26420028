// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import "github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"

// worked records which revision of its pool the host works with: it has it completely, and its Node is ready. One that was rolled
// back because of this host was no more than ready for a while: if the next one breaks the host as well, it goes back
// to what the pool goes back to, unless it cannot have that, and not to that. It records as well whose programs the host has kept.
func (e *evaluation) worked() {
	has, before := e.status.PoolRevision, e.status.PreviousPoolRevision
	last, back := e.status.NewestOperation(v1alpha1.OperationReconfigure), e.rolledBack
	works := e.poolRevision != "" && !last.Active() && (!last.BrokenOff() || e.unharmed()) &&
		e.holds(v1alpha1.ConditionUpToDate) && e.status.CurrentRevision == e.status.DesiredRevision && e.holds(v1alpha1.ConditionNodeReady)
	changed := last != nil && last.Revision != "" && last.Revision == e.status.DesiredRevision && last.MayHaveChangedHost()
	if e.poolRevision != "" && e.poolRevision != has && (works || changed) {
		before = e.keptOf(has, before, works)
	}
	switch {
	case e.instance.Spec.PoolRef == nil, e.blank():
		has, before = "", ""
	case works:
		has = e.poolRevision
	case back != nil && back.Revision == has && back.Broke(e.instance.Name) && e.poolRevision == back.To:
		if has = back.To; before == has {
			before = ""
		}
	}
	e.status.PoolRevision, e.status.PreviousPoolRevision = has, before
}

// blank says whether the host says that nothing was configured on it: if it worked with something once, it was installed again.
func (e *evaluation) blank() bool {
	return e.observation != nil && e.observation.report != nil && e.observation.report.blank
}

// keptOf is the revision whose programs the host has kept that was changed from one that it worked with to that of now, and before what it had
// kept until then. It is told to keep those of the one that it worked with last; if it has those still, or goes back to what somebody wants, which it
// is told to keep as well, those of before. Empty: it has kept none but what it has.
func (e *evaluation) keptOf(had, before string, works bool) string {
	goesBack := e.rolledBack.ByPerson() && e.rolledBack.To == e.poolRevision // perhaps with some of the programs of before only
	switch {
	case e.samePrograms:
		return before
	case e.programsOfBefore && !works: // with which it may go back still
		return before
	case goesBack && !e.programsOfBefore:
		return before
	case goesBack:
		return ""
	case works:
		return had
	}
	return ""
}
