// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// crash is the panic of a fake host that loses power.
type crash struct{}

// fakeFile is a file, a directory or a link.
type fakeFile struct {
	Directory bool
	Link      bool
	Content   string
	Access    config.Access
	changed   int // when, in ticks
}

type fakeService struct {
	Settings config.ServiceSettings
	Recovery *config.Recovery
	state    ServiceState
	started  int // when, in ticks
	hangs    bool
	failed   bool // its process was terminated, and Windows starts it again if it may
	pid      int  // zero: it has no process
	// slow is for how many starts its program does not report in time.
	slow int
	// lingers is for how many polls its process continues after it has stopped.
	lingers int
	// stuck: it starts for ever, refuses to be stopped, and its process cannot be terminated.
	stuck bool
}

// fake is a host in memory. It is stricter than Windows where that finds mistakes:
// services are not started before those they depend on run, and not stopped while
// others need them.
type fake struct {
	files       map[string]fakeFile // by path in lower case
	services    map[string]fakeService
	environment map[string]string
	certs       map[string]bool
	rules       map[string]config.FirewallRule
	exclusions  map[string]bool
	features    map[string]FeatureState
	hostname    string
	// cloudName is what the metadata service calls the host. Empty: ip-10-0-0-7.
	cloudName string
	machine   string
	domain    string // with its period; empty: none
	next      string
	endpoints map[string]bool
	// address is that of endpoints. Empty: 10.1.0.2.
	address string
	// networks are made by the service overlay.
	networks map[string]bool
	// madeWith is the command line with which that service has made its network.
	madeWith string
	// unlocked are the changes that were made by a process without the lock.
	unlocked []string
	// balancers is how many policy lists refer to endpoints of the network, and orphaned how many nobody can remove any more, as
	// their endpoints went before them.
	balancers, orphaned int
	// networkTypes are those that are not Overlay, by name.
	networkTypes map[string]string
	boots        int
	// inUse are files that cannot be replaced, only renamed.
	inUse map[string]bool
	// closed are files and directories that cannot be inspected.
	closed map[string]bool
	// mounted are layers that stay mounted, by path in lower case. Others may be based on those with lower numbers.
	mounted map[string]bool
	// held are files that cannot be renamed either.
	held   map[string]bool
	atBoot []string
	// strays are processes of no service.
	strays []Process

	locked  *Owner
	lastPID int
	free    int64 // bytes
	clock   time.Time
	ticks   int
	// failing are the methods that fail.
	failing map[string]error

	calls, mutations int
	log              []string // of what changed
	// crashAt is where the host loses power: before call n at 2n, after it at 2n+1.
	crashAt int
}

func newFake() *fake {
	f := &fake{
		files: map[string]fakeFile{}, services: map[string]fakeService{}, environment: map[string]string{},
		certs: map[string]bool{}, rules: map[string]config.FirewallRule{}, exclusions: map[string]bool{},
		features: map[string]FeatureState{}, hostname: "OLD", next: "OLD", endpoints: map[string]bool{},
		networks: map[string]bool{}, boots: 1, inUse: map[string]bool{}, failing: map[string]error{},
		clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), free: 1 << 40, crashAt: -1,
	}
	f.services[hnsService] = fakeService{Settings: config.ServiceSettings{StartType: config.StartManual}, state: ServiceRunning}
	f.files[`c:\windows`] = fakeFile{Directory: true}
	f.files[fold(api.Root)] = fakeFile{Directory: true}
	return f
}

// call is one call of a method. All of them end here.
func (f *fake) call(name string, mutation bool, do func() error) error {
	f.calls++
	if f.crashAt == 2*f.calls {
		panic(crash{})
	}
	err, fails := f.failing[name]
	if !fails {
		if mutation {
			f.mutations++
			f.ticks++
			f.log = append(f.log, name)
			if f.locked == nil {
				f.unlocked = append(f.unlocked, name)
			}
		}
		err = do()
	}
	if f.crashAt == 2*f.calls+1 {
		panic(crash{})
	}
	return err
}

// loseProcess is the end of the process that used the host.
func (f *fake) loseProcess() { f.locked, f.crashAt = nil, -1 }

// boot starts the host anew: services that start with it run.
func (f *fake) boot() {
	f.loseProcess()
	f.boots++
	f.ticks++
	f.hostname = f.next
	for name, state := range f.features {
		if state == FeaturePending {
			f.features[name] = FeatureEnabled
		}
	}
	for _, path := range f.atBoot {
		if len(f.children(path)) == 0 {
			delete(f.files, fold(path))
		}
	}
	f.atBoot, f.inUse, f.held, f.mounted = nil, map[string]bool{}, nil, nil
	for name, s := range f.services {
		if s.Settings.CommandLine == "" {
			continue // one of Windows
		}
		s.state, s.pid = ServiceStopped, 0
		f.services[name] = s
	}
	f.strays = nil
	for range f.services {
		for name, s := range f.services {
			if s.Settings.StartType == config.StartAutomatic && s.state == ServiceStopped && f.canStart(s) {
				s.state, s.started, s.pid = ServiceRunning, f.ticks, f.nextPID()
				f.services[name] = s
				if name == "overlay" {
					f.makeNetwork()
				}
			}
		}
	}
}

// makeNetwork is what the service overlay does when it runs: a network that exists stays as it is.
func (f *fake) makeNetwork() {
	if !f.networks["net"] {
		f.networks["net"], f.madeWith = true, f.services["overlay"].Settings.CommandLine
	}
}

func (f *fake) canStart(s fakeService) bool {
	program, _, _ := strings.Cut(s.Settings.CommandLine, " ")
	if _, ok := f.files[fold(program)]; !ok {
		return false
	}
	for _, d := range s.Settings.Dependencies {
		if f.services[fold(d)].state != ServiceRunning {
			return false
		}
	}
	return true
}

func (f *fake) sleep(ctx context.Context, d time.Duration) error {
	f.clock = f.clock.Add(d)
	for name, s := range f.services {
		switch {
		case s.stuck:
		case s.state == ServiceStartPending:
			s.state = ServiceRunning
			if name == "overlay" {
				f.makeNetwork()
			}
		case s.state == ServiceStopPending && !s.hangs:
			s.state = ServiceStopped
			if s.lingers == 0 {
				s.pid = 0
			}
		case s.state == ServiceStopped && s.lingers > 0:
			if s.lingers--; s.lingers == 0 {
				s.pid = 0
			}
		case s.state == ServiceStopped && s.failed && s.Recovery != nil:
			s.state, s.started, s.pid, s.failed = ServiceRunning, f.ticks, f.nextPID(), false
		}
		f.services[name] = s
	}
	return ctx.Err()
}

func (f *fake) Boot(context.Context) (id string, err error) {
	err = f.call("Boot", false, func() error { id = fmt.Sprint("boot-", f.boots); return nil })
	return id, err
}

func (f *fake) MachineID() string { return f.machine }

func (f *fake) Lock(o Owner) (release func() error, err error) {
	err = f.call("Lock", false, func() error {
		if f.locked != nil {
			return &LockedError{Owner: *f.locked}
		}
		f.locked = &o
		return nil
	})
	return func() error { f.locked = nil; return nil }, err
}

func (f *fake) Value(_ context.Context, v config.Variable) (value string, err error) {
	err = f.call("Value "+string(v.Source), false, func() error {
		switch {
		case v.Source == config.SourceAWSLocalHostname:
			value = cmp.Or(f.cloudName, "ip-10-0-0-7")
		case v.Source == config.SourceDefaultRouteAddress:
			value = "10.0.0.7"
		case v.Source == config.SourceHostname:
			value = f.hostname
		case v.Source == config.SourceFQDN:
			value = f.hostname + f.domain
		case v.Source == config.SourceHNSSubnet && f.networks[v.Network]:
			value = "10.1.0.0/24"
		default:
			return ErrNotYet
		}
		return nil
	})
	return value, err
}

func (f *fake) Probe(context.Context, config.Health) error {
	return f.call("Probe", false, func() error { return nil })
}

func (f *fake) Stat(path string) (info FileInfo, err error) {
	err = f.call("Stat", false, func() error {
		file, ok := f.files[fold(path)]
		switch {
		case f.closed[fold(path)]:
			return errors.New("access is denied")
		case !ok:
		case file.Directory:
			info = FileInfo{Kind: FileDirectory, Access: file.Access}
		case file.Link:
			info = FileInfo{Kind: FileOther}
		default:
			info = FileInfo{Kind: FileRegular, Access: file.Access, Size: int64(len(file.Content)), Modified: time.Unix(int64(file.changed), 0)}
		}
		return nil
	})
	return info, err
}

func (f *fake) Open(path string) (in io.ReadCloser, err error) {
	err = f.call("Open", false, func() error {
		file, ok := f.files[fold(path)]
		if !ok || file.Directory {
			return fs.ErrNotExist
		}
		in = io.NopCloser(strings.NewReader(file.Content))
		return nil
	})
	return in, err
}

func (f *fake) children(directory string) []string {
	var list []string
	for path := range f.files {
		if len(path) > 3 && parent(path) == fold(directory) {
			list = append(list, path[len(directory)+1:])
		}
	}
	slices.Sort(list)
	return list
}

func (f *fake) Names(directory string) (list []string, err error) {
	err = f.call("Names", false, func() error {
		if !f.files[fold(directory)].Directory {
			return fs.ErrNotExist
		}
		list = f.children(directory)
		return nil
	})
	return list, err
}

func (f *fake) inDirectory(path string) error {
	if p := parent(path); len(p) > 2 && !f.files[fold(p)].Directory {
		return fmt.Errorf("%s: %w", p, fs.ErrNotExist)
	}
	return nil
}

func (f *fake) WriteFile(path string, content []byte, access config.Access) error {
	return f.call("WriteFile "+path, true, func() error {
		if f.inUse[fold(path)] || f.runs(path) {
			return ErrInUse
		}
		f.files[fold(path)] = fakeFile{Content: string(content), Access: access, changed: f.ticks}
		return f.inDirectory(path)
	})
}

func (f *fake) CopyFile(from, to string, access config.Access) error {
	return f.call("CopyFile "+from+" "+to, true, func() error {
		file, ok := f.files[fold(from)]
		if !ok {
			return fmt.Errorf("%s: %w", from, fs.ErrNotExist)
		}
		if f.inUse[fold(to)] || f.runs(to) {
			return ErrInUse
		}
		f.files[fold(to)] = fakeFile{Content: file.Content, Access: access, changed: f.ticks}
		return f.inDirectory(to)
	})
}

func (f *fake) Rename(from, to string) error {
	return f.call("Rename "+from+" "+to, true, func() error {
		file, ok := f.files[fold(from)]
		if !ok {
			return fmt.Errorf("%s: %w", from, fs.ErrNotExist)
		}
		if f.inUse[fold(to)] || f.runs(to) || f.held[fold(from)] {
			return ErrInUse
		}
		for i := range f.strays { // its program has another path now
			if strings.EqualFold(f.strays[i].Path, from) {
				f.strays[i].Path = to
			}
		}
		if f.inUse[fold(from)] {
			delete(f.inUse, fold(from))
			f.inUse[fold(to)] = true
		}
		delete(f.files, fold(from))
		file.changed = f.ticks
		f.files[fold(to)] = file
		return f.inDirectory(to)
	})
}

func (f *fake) SetAccess(path string, access config.Access) error {
	return f.call("SetAccess "+path, true, func() error {
		file := f.files[fold(path)]
		file.Access = access
		f.files[fold(path)] = file
		return nil
	})
}

func (f *fake) MakeDirectory(path string, access config.Access) error {
	return f.call("MakeDirectory "+path, true, func() error {
		f.files[fold(path)] = fakeFile{Directory: true, Access: access}
		return f.inDirectory(path)
	})
}

func (f *fake) Remove(path string) error {
	return f.call("Remove "+path, true, func() error {
		if f.inUse[fold(path)] || f.runs(path) || f.held[fold(path)] {
			return ErrInUse
		}
		if len(f.children(path)) > 0 {
			return ErrNotEmpty
		}
		delete(f.files, fold(path))
		return nil
	})
}

func (f *fake) RemoveAtBoot(path string) error {
	return f.call("RemoveAtBoot "+path, true, func() error { f.atBoot = append(f.atBoot, path); return nil })
}

func (f *fake) RemovedAtBoot() (paths []string, err error) {
	err = f.call("RemovedAtBoot", false, func() error { paths = slices.Clone(f.atBoot); return nil })
	return paths, err
}

func (f *fake) UnmountLayer(path string) error {
	return f.call("UnmountLayer "+path, true, func() error {
		if f.mounted[fold(path)] {
			return errors.New("the layer stays mounted")
		}
		return nil
	})
}

func (f *fake) RemoveLayer(path string) error {
	return f.call("RemoveLayer "+path, true, func() error {
		if len(f.mounted) > 0 && !f.mounted[fold(path)] {
			panic("exception 0xc0000420: " + path + " may be the base of a layer that is mounted")
		}
		if f.mounted[fold(path)] {
			return errors.New("the layer is mounted")
		}
		maps.DeleteFunc(f.files, func(p string, _ fakeFile) bool { return config.Below(p, path) })
		return nil
	})
}

func (f *fake) Volume(string) (name string, free int64, err error) {
	err = f.call("Volume", false, func() error { return nil })
	return "C:", f.free, err
}

func (f *fake) RotateLog(path, target string) error {
	return f.call("RotateLog "+path, true, func() error {
		if _, there := f.files[fold(target)]; there {
			return fs.ErrExist
		}
		f.files[fold(target)] = f.files[fold(path)]
		if err := f.failing["Truncate "+path]; err != nil {
			return fmt.Errorf("%w: %w", ErrNotTruncated, err)
		}
		f.files[fold(path)] = fakeFile{}
		return nil
	})
}

func (f *fake) Service(name string) (s *Service, err error) {
	err = f.call("Service", false, func() error {
		if now, ok := f.services[fold(name)]; ok {
			s = &Service{Settings: now.Settings, Recovery: now.Recovery, State: now.state}
			if now.state != ServiceStopped {
				s.PID = now.pid
			}
		}
		return nil
	})
	return s, err
}

func (f *fake) CreateService(name string, settings config.ServiceSettings, recovery *config.Recovery) error {
	return f.call("CreateService "+name, true, func() error {
		if _, ok := f.services[fold(name)]; ok {
			return errors.New("there is one")
		}
		f.services[fold(name)] = fakeService{Settings: settings, Recovery: recovery, state: ServiceStopped}
		return nil
	})
}

// changeService changes a service that has to be there.
func (f *fake) changeService(what, name string, change func(*fakeService) error) error {
	return f.call(what+" "+name, true, func() error {
		s, ok := f.services[fold(name)]
		if !ok {
			return errors.New("there is no service " + name)
		}
		err := change(&s)
		f.services[fold(name)] = s
		return err
	})
}

func (f *fake) ConfigureService(name string, settings config.ServiceSettings, recovery *config.Recovery) error {
	return f.changeService("ConfigureService", name, func(s *fakeService) error {
		s.Settings, s.Recovery = settings, recovery
		if s.state != ServiceStopped {
			return errors.New("it runs with the old settings")
		}
		return nil
	})
}

func (f *fake) DeleteService(name string) error {
	err := f.changeService("DeleteService", name, func(s *fakeService) error {
		if s.state != ServiceStopped {
			return errors.New("it runs")
		}
		return nil
	})
	if err == nil {
		delete(f.services, fold(name))
	}
	return err
}

func (f *fake) StartService(name string) error {
	return f.changeService("StartService", name, func(s *fakeService) error {
		if !f.canStart(*s) {
			return errors.New("what it needs is not there")
		}
		if s.pid != 0 {
			return errors.New("its old process has the port")
		}
		if s.slow > 0 {
			s.slow--
			return fmt.Errorf("%w: service request timeout", ErrNoAnswer)
		}
		s.state, s.started, s.pid, s.failed = ServiceStartPending, f.ticks, f.nextPID(), false
		return nil
	})
}

func (f *fake) StopService(name string) error {
	return f.changeService("StopService", name, func(s *fakeService) error {
		if s.state == ServiceStartPending {
			return errors.New("it cannot accept control messages at this time")
		}
		for other, o := range f.services {
			if o.state != ServiceStopped && slices.ContainsFunc(o.Settings.Dependencies, func(d string) bool { return strings.EqualFold(d, name) }) {
				return fmt.Errorf("%w: %s", ErrNeeded, other)
			}
		}
		s.state = ServiceStopPending
		return nil
	})
}

func (f *fake) SetRecovery(name string, recovery *config.Recovery) error {
	return f.changeService("SetRecovery", name, func(s *fakeService) error {
		s.Recovery = recovery
		return nil
	})
}

func (f *fake) SetAutomatic(name string, recovery *config.Recovery) error {
	return f.changeService("SetAutomatic", name, func(s *fakeService) error {
		s.Settings.StartType, s.Recovery = config.StartAutomatic, recovery
		return nil
	})
}

// nextPID returns a number that no process had before.
func (f *fake) nextPID() int {
	f.lastPID += 10
	return f.lastPID
}

// processes are those of services, with the program that another one runs for the service, and
// the strays.
func (f *fake) processes() []Process {
	list := slices.Clone(f.strays)
	for _, s := range f.services {
		if s.pid == 0 {
			continue
		}
		program, inner := programsOf(s.Settings.CommandLine)
		list = append(list, Process{PID: s.pid, Started: int64(s.pid), Path: program})
		for _, path := range inner {
			list = append(list, Process{PID: s.pid + 1, Parent: s.pid, Started: int64(s.pid), Path: path})
		}
	}
	return list
}

// runs reports whether a process runs the program.
func (f *fake) runs(path string) bool {
	return slices.ContainsFunc(f.processes(), func(p Process) bool { return strings.EqualFold(p.Path, path) })
}

func (f *fake) Processes() (list []Process, err error) {
	err = f.call("Processes", false, func() error { list = f.processes(); return nil })
	return list, err
}

func (f *fake) KillProcess(p Process) error {
	return f.call("KillProcess "+p.Path, true, func() error {
		f.strays = slices.DeleteFunc(f.strays, func(o Process) bool { return o == p })
		for name, s := range f.services {
			if s.pid == p.PID && !s.stuck {
				s.failed = s.state != ServiceStopped
				s.state, s.pid, s.lingers = ServiceStopped, 0, 0
				f.services[name] = s
			}
		}
		return nil
	})
}

func (f *fake) Hostname() (current, next string, err error) {
	err = f.call("Hostname", false, func() error { return nil })
	return f.hostname, f.next, err
}

func (f *fake) SetHostname(name string) error {
	return f.call("SetHostname", true, func() error { f.next = name; return nil })
}

func (f *fake) Feature(_ context.Context, name string) (state FeatureState, err error) {
	err = f.call("Feature", false, func() error { state = f.features[name]; return nil })
	return state, err
}

func (f *fake) EnableFeature(_ context.Context, name string) error {
	return f.call("EnableFeature "+name, true, func() error { f.features[name] = FeaturePending; return nil })
}

func (f *fake) Environment() (list map[string]string, err error) {
	err = f.call("Environment", false, func() error { list = maps.Clone(f.environment); return nil })
	return list, err
}

func (f *fake) SetEnvironment(name string, value *string) error {
	return f.call("SetEnvironment "+name, true, func() error {
		maps.DeleteFunc(f.environment, func(key, _ string) bool { return strings.EqualFold(key, name) })
		if value != nil {
			f.environment[name] = *value
		}
		return nil
	})
}

func (f *fake) Certificates(store string) (fingerprints []string, err error) {
	err = f.call("Certificates", false, func() error {
		for key := range f.certs {
			if in, fingerprint, _ := strings.Cut(key, "/"); in == fold(store) {
				fingerprints = append(fingerprints, fingerprint)
			}
		}
		return nil
	})
	return fingerprints, err
}

func (f *fake) AddCertificate(store string, der []byte) error {
	return f.call("AddCertificate", true, func() error {
		sum := sha256.Sum256(der)
		f.certs[certificateKey(store, hex.EncodeToString(sum[:]))] = true
		return nil
	})
}

func (f *fake) RemoveCertificate(store, fingerprint string) error {
	return f.call("RemoveCertificate", true, func() error { delete(f.certs, certificateKey(store, fingerprint)); return nil })
}

func (f *fake) FirewallRule(name string) (rule *config.FirewallRule, err error) {
	err = f.call("FirewallRule", false, func() error {
		if r, ok := f.rules[fold(name)]; ok {
			rule = &r
		}
		return nil
	})
	return rule, err
}

func (f *fake) SetFirewallRule(rule config.FirewallRule) error {
	return f.call("SetFirewallRule", true, func() error { f.rules[fold(rule.Name)] = rule; return nil })
}

func (f *fake) RemoveFirewallRule(name string) error {
	return f.call("RemoveFirewallRule", true, func() error { delete(f.rules, fold(name)); return nil })
}

func (f *fake) AntivirusExclusion(program string) (there bool, err error) {
	err = f.call("AntivirusExclusion", false, func() error { there = f.exclusions[fold(program)]; return nil })
	return there, err
}

func (f *fake) SetAntivirusExclusion(program string, excluded bool) error {
	return f.call("SetAntivirusExclusion", true, func() error {
		delete(f.exclusions, fold(program))
		if excluded {
			f.exclusions[fold(program)] = true
		}
		return nil
	})
}

func (f *fake) HNSNetwork(_ context.Context, name string) (there bool, err error) {
	err = f.call("HNSNetwork", false, func() error { there = f.networks[name]; return nil })
	return there, err
}

func (f *fake) HNSNetworks(context.Context) (list []api.HNSNetwork, err error) {
	err = f.call("HNSNetworks", false, func() error {
		for name := range f.networks {
			list = append(list, api.HNSNetwork{Name: name, Type: cmp.Or(f.networkTypes[name], "Overlay")})
		}
		return nil
	})
	return list, err
}

func (f *fake) RemoveHNSNetwork(_ context.Context, name string) error {
	return f.call("RemoveHNSNetwork", true, func() error {
		f.orphaned += f.balancers
		f.balancers = 0
		delete(f.networks, name)
		return nil
	})
}

func (f *fake) RemoveHNSPolicyLists(_ context.Context, network string) error {
	return f.call("RemoveHNSPolicyLists "+network, true, func() error {
		if f.services["kube-proxy"].state == ServiceRunning {
			return errors.New("it would make them again")
		}
		if f.networks[network] {
			f.balancers = 0
		}
		return nil
	})
}

func (f *fake) HNSEndpoint(_ context.Context, name string) (address string, err error) {
	err = f.call("HNSEndpoint", false, func() error {
		if !f.endpoints[name] {
			return ErrNotYet
		}
		address = cmp.Or(f.address, "10.1.0.2")
		return nil
	})
	return address, err
}

func (f *fake) MakeHNSEndpoint(_ context.Context, e config.HNSEndpoint) error {
	return f.call("MakeHNSEndpoint", true, func() error { f.endpoints[e.Name] = true; return nil })
}

func (f *fake) RemoveHNSEndpoint(_ context.Context, name string) error {
	return f.call("RemoveHNSEndpoint", true, func() error {
		f.orphaned += f.balancers
		f.balancers = 0
		delete(f.endpoints, name)
		return nil
	})
}

// picture is what a host is like, for comparing: without when, and without the agent's
// own files.
func (f *fake) picture() map[string]string {
	out := map[string]string{"hostname": f.hostname + " " + f.next}
	for path, file := range f.files {
		if !strings.HasPrefix(path, fold(stateDirectory)) {
			out["file "+path] = fmt.Sprint(file.Directory, file.Content, file.Access)
		}
	}
	for name, s := range f.services {
		recovery := ""
		if s.Recovery != nil {
			recovery = fmt.Sprint(*s.Recovery)
		}
		out["service "+name] = fmt.Sprint(s.Settings, s.state, recovery)
	}
	for name, value := range f.environment {
		out["environment "+strings.ToUpper(name)] = value
	}
	for _, set := range []struct {
		name    string
		members map[string]bool
	}{{"certificate", f.certs}, {"exclusion", f.exclusions}, {"network", f.networks}, {"endpoint", f.endpoints}} {
		for name := range set.members {
			out[set.name+" "+name] = "there"
		}
	}
	for name, state := range f.features {
		out["feature "+name] = string(state)
	}
	for name, rule := range f.rules {
		out["rule "+name] = fmt.Sprint(rule)
	}
	return out
}

// inventory of the host, without what depends on how often it was tried.
func (f *fake) inventory() (*inventory, error) {
	content, ok := f.files[fold(inventoryPath)]
	if !ok {
		return nil, fs.ErrNotExist
	}
	inv, err := decodeInventory([]byte(content.Content))
	if err != nil {
		return nil, err
	}
	inv.NextAside = 0
	for key, r := range inv.Files {
		if r.Aside != "" {
			r.Aside = "holds " + f.files[fold(r.Aside)].Content
		}
		inv.Files[key] = r
	}
	for key, r := range inv.Environment {
		r.Previous = nil
		inv.Environment[key] = r
	}
	return inv, nil
}

// secretAnywhere reports where a text appears outside of what only administrators read.
func (f *fake) secretAnywhere(text string) string {
	for path, file := range f.files {
		if bytes.Contains([]byte(file.Content), []byte(text)) && file.Access != config.AccessAdministrators {
			return path
		}
	}
	return ""
}
