// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// stillRunning returns those of the processes that a service was seen with before, and those
// that it has now, which still run.
func stillRunning(list, known []Process, s *Service, alone bool) []Process {
	now := processesOf(s, list, alone)
	return slices.DeleteFunc(slices.Clone(list), func(p Process) bool {
		same := func(o Process) bool { return o.PID == p.PID && o.Started == p.Started }
		return !slices.ContainsFunc(known, same) && !slices.ContainsFunc(now, same)
	})
}

// processesOf returns the processes of a service: the one that the service control manager knows,
// and those of its program, if it is alone in using that. If another program like kube-log-runner
// runs it, these are the programs in the arguments and what runs them. What they start besides is
// not among them: the containers of a runtime outlive it.
func processesOf(s *Service, list []Process, alone bool) []Process {
	program, inner := programsOf(s.Settings.CommandLine)
	if len(inner) == 0 && alone {
		inner = []string{program}
	}
	var found []Process
	for _, p := range list {
		if s.PID != 0 && p.PID == s.PID || containsFold(inner, p.Path) {
			found = append(found, p)
		}
	}
	for _, p := range list {
		parent := func(o Process) bool { return o.Parent == p.PID && o.Started >= p.Started }
		if strings.EqualFold(p.Path, program) && !slices.Contains(found, p) && slices.ContainsFunc(found, parent) {
			found = append(found, p)
		}
	}
	return found
}

// alone reports whether no other service, and no request to the agent, runs the program of a
// service.
func (a *application) alone(name, commandLine string) bool {
	program, _ := programsOf(commandLine)
	for other, s := range a.seen.services {
		if s == nil || other == fold(name) {
			continue
		}
		if theirs, _ := programsOf(s.Settings.CommandLine); strings.EqualFold(theirs, program) {
			return false
		}
	}
	return !config.Below(program, api.Root) && !slices.ContainsFunc(a.bundle.Document.Services, func(s config.Service) bool {
		return !strings.EqualFold(s.Name, name) && strings.EqualFold(s.BinaryPath, program)
	})
}

// programsOf returns the program of a command line, and those that are arguments of it.
func programsOf(commandLine string) (program string, inner []string) {
	for i, word := range wordsOf(commandLine) {
		if i == 0 {
			program = word
		} else if len(word) > 2 && word[1] == ':' && strings.HasSuffix(strings.ToLower(word), ".exe") {
			inner = append(inner, word)
		}
	}
	return program, inner
}

// wordsOf returns the program of a command line, and its arguments.
func wordsOf(commandLine string) []string {
	quoted := false
	return strings.FieldsFunc(commandLine, func(c rune) bool {
		if c == '"' {
			quoted = !quoted
		}
		return c == '"' || c == ' ' && !quoted
	})
}

// kill terminates processes.
func (a *application) kill(list []Process) error {
	var errs []error
	for _, p := range list {
		if err := a.System.KillProcess(p); err != nil {
			errs = append(errs, fmt.Errorf("process %d of %s: %w", p.PID, p.Path, err))
		}
	}
	return errors.Join(errs...)
}

// endPrograms ends what still runs from files that are removed, and from those that were replaced
// while they ran, and what holds containers whose networks are removed: containers outlive their runtime, and end with the program that
// holds them. What does not end in time is in use.
func (a *application) endPrograms(ctx context.Context) error {
	removed := func(p Process) bool {
		if a.seen.remade && containsFold(a.bundle.Document.HNS.Keep.Programs, p.Path) {
			return true
		}
		return config.Below(p.Path, trashDirectory) || slices.ContainsFunc(a.plan.steps, func(s step) bool {
			return s.Kind == api.KindFile && s.Action == api.ActionDelete && strings.EqualFold(s.Name, p.Path)
		})
	}
	deadline := a.now().Add(a.deadlines.Kill)
	for first := true; ; first = false {
		list, err := a.System.Processes()
		if err != nil {
			return fmt.Errorf("list the processes: %w", err)
		}
		list = slices.DeleteFunc(list, func(p Process) bool { return !removed(p) })
		if len(list) == 0 || !first && !a.now().Before(deadline) {
			return nil
		}
		for _, p := range list {
			e := api.Event{Item: p.Path, State: api.EventNote, Message: fmt.Sprintf("process %d is terminated, with its containers", p.PID)}
			if err := a.System.KillProcess(p); err != nil {
				e.Message = fmt.Sprintf("process %d cannot be terminated: %v", p.PID, err)
			}
			if first {
				a.emit(e)
			}
		}
		if err := a.sleep(ctx, a.deadlines.Poll); err != nil {
			return fmt.Errorf("wait for processes to end: %w", err)
		}
	}
}
