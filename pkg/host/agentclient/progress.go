// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient/answer"
)

const (
	// maxProgressLine bounds one line of what "apply" and "cleanup" answer. The longest is
	// a result with hundreds of items; events have some hundred bytes.
	maxProgressLine = 1 << 20
	// maxProgress bounds all of it. A host that is configured from scratch reports some hundred events.
	maxProgress = 8 << 20
	// maxSteps bounds how many steps a host may say that there are.
	maxSteps = 1 << 16
)

// errNoResult means that the agent ended without saying how it ended.
var errNoResult = errors.New("it ended without a result")

// readProgress reads what "apply" and "cleanup" answer, up to the result, without secrets.
// Each event is passed on at once. An error of r is returned as it is, its end as errNoResult.
func readProgress(r io.Reader, hide redactor, event func(api.Event)) (*api.Result, error) {
	lines := bufio.NewReader(&boundedReader{r: r, left: maxProgress})
	for {
		line, err := readLine(lines, maxProgressLine)
		if errors.Is(err, io.EOF) {
			return nil, errNoResult
		}
		if err != nil {
			return nil, err
		}
		var p api.Progress
		if err := answer.Decode([]byte(hide.text(string(line))), &p, answer.OfPlan); err != nil {
			return nil, fmt.Errorf("it does not answer as the agent does: %w", err)
		}
		switch {
		case p.Result != nil && p.Event == nil:
			return p.Result, nil
		case p.Event != nil && p.Result == nil:
			p.Event.Step, p.Event.Steps = answer.Between(p.Event.Step, 0, maxSteps), answer.Between(p.Event.Steps, 0, maxSteps)
			event(*p.Event)
		default:
			return nil, errors.New("it does not answer as the agent does: a line must have either an event or a result")
		}
	}
}

// boundedReader fails when there is more to read than left.
type boundedReader struct {
	r    io.Reader
	left int
}

// Read implements [io.Reader].
func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, &answer.TooLargeError{What: "its progress", Limit: maxProgress}
	}
	return n, err
}

// Outcomes that each command may have.
var outcomes = map[string][]api.Outcome{
	api.CommandApply:           {api.OutcomeUnchanged, api.OutcomeApplied, api.OutcomeRebootRequired, api.OutcomeImpactExceeded, api.OutcomeFailed},
	api.CommandAdopt:           {api.OutcomeUnchanged, api.OutcomeApplied, api.OutcomeFailed},
	api.CommandRelease:         {api.OutcomeUnchanged, api.OutcomeReleased, api.OutcomeFailed},
	api.CommandRestartServices: {api.OutcomeApplied, api.OutcomeFailed},
	api.CommandCleanup:         {api.OutcomeRemoved, api.OutcomeFailed},
}

// checkResult refuses a result of a change on which no caller can act.
func checkResult(r *api.Result, c change) error {
	if !slices.Contains(outcomes[c.command], r.Outcome) {
		return fmt.Errorf("it reports the unknown outcome %.40q", r.Outcome)
	}
	switch {
	case c.bundle == nil || r.Outcome == api.OutcomeFailed:
		return nil
	case c.revision != "" && r.Revision != c.revision:
		return wrongRevision(r.Revision, c.revision)
	case c.revision != "":
		return nil
	}
	bundle := c.bundle
	if err := checkRevision(r.Revision, bundle); err != nil {
		return err
	}
	if r.Outcome != api.OutcomeImpactExceeded {
		return nil
	}
	if r.Plan == nil {
		return errors.New("it reports that the impact is too high, and does not report what it would do")
	}
	return checkPlan(r.Plan, bundle)
}

// checkPlan refuses a plan on which no caller can act, and puts what the bundle says of the
// files of the payload in the place of what the host says: what is sent to a host, and
// where, is not the host's to choose.
func checkPlan(p *api.Plan, bundle *config.Bundle) error {
	if err := checkRevision(p.Revision, bundle); err != nil {
		return err
	}
	impacts := []config.Impact{p.Impact}
	for _, i := range p.Items {
		impacts = append(impacts, i.Impact)
		if !slices.Contains([]api.Action{api.ActionCreate, api.ActionUpdate, api.ActionDelete}, i.Action) {
			return fmt.Errorf("it plans the unknown action %.40q", i.Action)
		}
	}
	for _, i := range impacts {
		if !slices.Contains(config.Impacts(), i) {
			return fmt.Errorf("it plans the unknown impact %.40q", i)
		}
	}
	for n, wanted := range p.Payload {
		at := slices.IndexFunc(bundle.Document.Files, func(f config.File) bool {
			return f.Source.Payload != "" && f.Source.Payload == wanted.Name && f.Digest == wanted.Digest
		})
		if at < 0 {
			return fmt.Errorf("it needs %.100q of the payload, which was not requested", wanted.Name)
		}
		f := bundle.Document.Files[at]
		p.Payload[n] = api.PayloadFile{Name: f.Source.Payload, Digest: f.Digest, Size: f.Source.Size, URL: f.Source.URL, Path: api.PayloadPath(f.Digest)}
	}
	return nil
}

// checkRevision refuses an answer that is about another document.
func checkRevision(revision string, bundle *config.Bundle) error {
	want, err := bundle.Document.Revision()
	if err != nil {
		return err
	}
	if revision != want {
		return wrongRevision(revision, want)
	}
	return nil
}

func wrongRevision(revision, want string) error {
	return fmt.Errorf("it answers for the revision %.64q, and %s was requested", revision, want)
}
