// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"fmt"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/words"
)

// progress shows how far an operation is: on a terminal in one line that is
// redrawn, and otherwise in a line for each change.
type progress struct {
	e *env
	// label begins each line; empty where the name of the host is before it already.
	label string
	now   func() time.Time
	// width is that of the terminal, after which the line is cut.
	width func() int
	last  string
	// drawn is how long the line on the terminal is.
	drawn int
	down  bool
}

func newProgress(e *env, t target) *progress {
	p := &progress{e: e, now: time.Now, width: func() int {
		width, _ := terminalSize(e.ErrOut)
		return width
	}}
	if !e.labeled {
		p.label = t.Name + ": "
	}
	return p
}

// show shows an operation that may have changed.
func (p *progress) show(op *v1alpha1.Operation) {
	p.down = false
	if p.e.live {
		p.tick(op)
		return
	}
	if text := progressText(op, false); text != p.last && !p.between(op) {
		p.last = text
		p.e.note("%s%s", p.label, text)
	}
}

// between says whether the operation has begun and is between two steps, about which
// there is nothing to say that the lines before and after do not say.
func (p *progress) between(op *v1alpha1.Operation) bool {
	step, _ := op.Runs()
	return op.Phase == v1alpha1.OperationRunning && op.CancelRequestedBy == "" && step == nil
}

// tick redraws the line, because time has passed.
func (p *progress) tick(op *v1alpha1.Operation) {
	if !p.e.live || p.down {
		return
	}
	width := p.width()
	line := visible(p.label + progressLine(op, true, p.now()))
	if head, _ := progressParts(op, true); cells(visible(p.label+head)) > width-len(" (23h59m)")-len("...") { // the time is shown, and what comes after it
		line = visible(p.label + progressLine(op, false, p.now()))
	}
	line = cut(line, width)
	// Consoles of Windows obey escape sequences only if they are told to; spaces erase
	// everywhere. A line that was drawn before the terminal became narrower stays.
	over := max(min(p.drawn, width-1)-cells(line), 0)
	_, _ = fmt.Fprintf(p.e.ErrOut, "\r%s%s", line, strings.Repeat(" ", over))
	p.drawn = cells(line)
}

// trouble says, once, that the server does not answer.
func (p *progress) trouble(err error) {
	if p.down {
		return
	}
	p.clear()
	p.down = true
	p.e.note("%sthe operation continues, but cannot be seen at the moment: %s", p.label, describeError(err))
}

// unbegun says that windows-controller has not begun an operation, unless that says itself what it waits for.
func (p *progress) unbegun(op *v1alpha1.Operation) {
	if op.Phase != v1alpha1.OperationPending || op.StartedAt != nil || op.Message != "" {
		return
	}
	p.clear()
	p.e.note("%swindows-controller has not begun the %s for %s: it does not work, or it is busy with other operations. %s", p.label, nounOf(op.Type), answersWithin, seeController)
}

// clear removes the line, so that something else can be written.
func (p *progress) clear() {
	if p.drawn > 0 {
		_, _ = fmt.Fprintf(p.e.ErrOut, "\r%s\r", strings.Repeat(" ", max(min(p.drawn, p.width()-1), 0)))
		p.drawn = 0
	}
}

// progressLine is how far an operation is and for how long. The time comes before the detail, which is often longer than a terminal is wide.
func progressLine(op *v1alpha1.Operation, allSteps bool, now time.Time) string {
	head, detail := progressParts(op, allSteps)
	return withDetail(fmt.Sprintf("%s (%s)", head, took(&op.RequestedAt, op.FinishedAt, now)), detail)
}

// progressText is how far an operation is, without anything that changes with time.
func progressText(op *v1alpha1.Operation, allSteps bool) string {
	return withDetail(progressParts(op, allSteps))
}

func withDetail(head, detail string) string {
	if detail == "" {
		return head
	}
	return head + "; " + detail
}

// progressParts are the steps of an operation, and in detail who cancels it and what keeps it or what it says.
// allSteps also names those that are done or to come, which need not be said again in
// each of many lines.
func progressParts(op *v1alpha1.Operation, allSteps bool) (head, detail string) {
	head = fmt.Sprintf("%s %s", nounOf(op.Type), strings.ToLower(string(op.Phase)))
	var steps []string
	for _, step := range op.Steps {
		if !allSteps && step.State != v1alpha1.StepRunning && step.State != v1alpha1.StepFailed {
			continue
		}
		switch step.State {
		case v1alpha1.StepPending:
			steps = append(steps, step.Name)
		case v1alpha1.StepRunning:
			text := step.Name + " running"
			if op.Progress != nil && op.Progress.Done < op.Progress.Total {
				text = step.Name + " " + progressOf(op.Progress)
			}
			steps = append(steps, "["+text+"]")
		case v1alpha1.StepSucceeded:
			steps = append(steps, step.Name+" done")
		default:
			steps = append(steps, step.Name+" "+strings.ToLower(string(step.State)))
		}
	}
	if len(steps) > 0 {
		head += ": " + strings.Join(steps, ", ")
	}
	var details []string
	if op.CancelRequestedBy != "" && op.Active() {
		details = append(details, "is being canceled by "+op.CancelRequestedBy)
	}
	if len(op.BlockedBy) > 0 && op.Active() {
		text := "blocked by " + op.BlockedBy[0].String()
		if more := len(op.BlockedBy) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		details = append(details, text)
	} else if op.Message != "" {
		details = append(details, words.OneLine(op.Message))
	}
	return head, strings.Join(details, "; ")
}

// nounOf is what an operation is called in a sentence.
func nounOf(t v1alpha1.OperationType) string {
	switch t {
	case v1alpha1.OperationReconfigure:
		return "reconfiguration"
	case v1alpha1.OperationAdopt:
		return "adoption"
	case v1alpha1.OperationRemove:
		return "removal"
	case v1alpha1.OperationRestartServices:
		return "restart of services"
	default:
		return strings.ToLower(string(t))
	}
}

func progressOf(p *v1alpha1.OperationProgress) string {
	return fmt.Sprintf("%d/%d %s", p.Done, p.Total, p.Unit)
}
