// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package winhost

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

// ServiceStart is a service of a host that is being started.
type ServiceStart struct {
	// Name of the service, and CommandLine that the service control manager has for it.
	Name, CommandLine string
	// Hostname is how the host calls itself in this boot, whose ID is Boot.
	Hostname, Boot string
	// Address is the IP address of the host.
	Address string
	// Drive is the directory of this machine that is drive C of the host.
	Drive string
	// OSVersion is the version of Windows.
	OSVersion string
	// Logf takes the log of the host.
	Logf func(format string, args ...any)
}

// ServiceFunc is what the program of a service does. It ends when ctx does: that is how a
// service is stopped, and how it ends when the host loses its power. When it returns before,
// the service has stopped by itself, with an error as if its program had failed.
type ServiceFunc func(ctx context.Context, s ServiceStart) error

// process is a service that was started in the present boot.
type process struct {
	pid      int // no other process of the host has or had it
	started  time.Time
	programs string // its command line, in lower case
	cancel   context.CancelFunc
	ended    chan struct{} // closed when it has

	mu       sync.Mutex // guards what follows
	stopping bool
	exitCode uint32
}

func (p *process) state() (state engine.ServiceState, exitCode uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := false
	select {
	case <-p.ended:
		ended = true
	default:
	}
	switch {
	case ended:
		return engine.ServiceStopped, p.exitCode
	case p.stopping:
		return engine.ServiceStopPending, 0
	default:
		return engine.ServiceRunning, 0
	}
}

// promptly is how long a program that is asked to end is waited for. Nobody depends on it:
// the engine looks again after half a second, and tests have many services stopped.
const promptly = 100 * time.Millisecond

// stop asks the process to end. One that hangs is about to, until it is killed.
func (p *process) stop(hangs bool) {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	if hangs {
		return
	}
	p.cancel()
	timer := time.NewTimer(promptly)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	}
}

func (p *process) kill() { p.cancel() }

func (h *inProcessHost) process(name string) *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.processes[strings.ToLower(name)]
}

func (h *inProcessHost) forgetProcess(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.processes[strings.ToLower(name)]; p != nil {
		p.cancel()
		delete(h.processes, strings.ToLower(name))
	}
}

// startProcess runs the program of a service, which the service control manager has
// started.
func (h *inProcessHost) startProcess(s *hostSystem, name string) error {
	service, err := s.System.Service(name)
	if err != nil || service == nil {
		return err
	}
	hostname, _ := h.hostname()
	start := ServiceStart{
		Name: name, CommandLine: service.Settings.CommandLine, Hostname: hostname, Boot: s.boot, Address: h.Address(),
		Drive: h.driveC, OSVersion: s.version(), Logf: h.logf,
	}
	run := h.program(start)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.on || h.boots[0].id != s.boot {
		return errNoPower
	}
	ctx, cancel := context.WithCancel(h.bootContext)
	h.lastPID++
	p := &process{pid: h.lastPID, started: h.opts.Clock(), programs: strings.ToLower(start.CommandLine), cancel: cancel, ended: make(chan struct{})}
	h.processes[strings.ToLower(name)] = p
	h.programs.Go(func() {
		defer close(p.ended)
		defer cancel()
		if err := run(ctx, start); err != nil {
			h.logf("%s: service %s ended: %v", h.name, name, err)
			p.mu.Lock()
			p.exitCode = 1
			p.mu.Unlock()
		}
	})
	return nil
}

// program is what a service does.
func (h *inProcessHost) program(s ServiceStart) ServiceFunc {
	if run := h.opts.Services[s.Name]; run != nil {
		return run
	}
	if s.Name == api.ServiceName && h.opts.RunAgent {
		return h.runAgentService
	}
	return func(ctx context.Context, _ ServiceStart) error {
		<-ctx.Done()
		return nil
	}
}

// runAgentService is the agent as a service.
func (h *inProcessHost) runAgentService(ctx context.Context, s ServiceStart) error {
	program, rest := splitProgram(s.CommandLine)
	local, err := h.LocalPath(program)
	if err != nil {
		return err
	}
	agent.Main(ctx, &agentHost{h, local}, strings.Fields(rest), strings.NewReader(""), io.Discard, logWriter{h})
	return nil
}

// logWriter writes to the log of a host.
type logWriter struct{ host *inProcessHost }

func (w logWriter) Write(p []byte) (int, error) {
	w.host.logf("%s: %s", w.host.name, strings.TrimSpace(string(p)))
	return len(p), nil
}

// startServices does what Windows does when it boots: it starts the services that start by
// themselves. Of those of other people there are none.
func (h *inProcessHost) startServices() error {
	s := h.system()
	for _, path := range h.takeRemovals() {
		if err := s.System.Remove(path); err != nil {
			h.logf("%s: %v", h.name, err) // as Windows does
		}
	}
	for _, name := range h.knownServices() {
		service, err := s.System.Service(name)
		if err != nil {
			return err
		}
		if service == nil || service.State != engine.ServiceRunning {
			continue
		}
		if err := h.startProcess(s, name); err != nil {
			return err
		}
	}
	return nil
}

// knownServices are the names of the services that there may be.
func (h *inProcessHost) knownServices() []string {
	names := agent.ServicesOfInterest()
	for name := range h.opts.Services {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// takeRemovals are the files that were to be removed at this boot.
func (h *inProcessHost) takeRemovals() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	paths := h.removeAtBoot
	h.removeAtBoot = nil
	return paths
}

// hasProgram says whether a service that runs has a path in its command line.
func (h *inProcessHost) hasProgram(path string) bool {
	path = strings.ToLower(path)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.processes {
		if state, _ := p.state(); state != engine.ServiceStopped && strings.HasSuffix(path, ".exe") && strings.Contains(p.programs, path) {
			return true
		}
	}
	return false
}

// serviceFacts are the facts about the services that were put on the host.
func (h *inProcessHost) serviceFacts() []api.Service {
	var facts []api.Service
	s := h.system()
	for _, name := range agent.ServicesOfInterest() {
		service, err := s.Service(name)
		if err != nil || service == nil {
			continue
		}
		var started *time.Time
		if p := h.process(name); p != nil && service.State == engine.ServiceRunning {
			started = &p.started
		}
		facts = append(facts, api.Service{
			Name: name, DisplayName: name, Description: service.Settings.Description, State: string(service.State),
			StartType: string(service.Settings.StartType), Path: service.Settings.CommandLine, Account: "LocalSystem",
			Dependencies: service.Settings.Dependencies, ExitCode: service.ExitCode, StartedAt: started,
		})
	}
	return facts
}
