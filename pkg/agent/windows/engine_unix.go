// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build unix

package windows

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/agent/files"
)

// defaultDrive is where drive C is on a Unix host.
const defaultDrive = "/var/lib/windows-node-agent/c"

// System is the host as the engine changes it.
func (h *Host) System() engine.System {
	return NewUnixSystem(h.drive, func() (string, error) {
		boot, err := h.Boot(context.Background())
		return boot.ID, err
	})
}

// Serve calls run: a Unix host has no service control manager.
func (h *Host) Serve(ctx context.Context, run func(context.Context) error) error { return run(ctx) }

// ReportDrift does nothing: a Unix host has no event log.
func (h *Host) ReportDrift(string) error { return nil }

// UnixSystem is a host for test tiers. Files and directories are real, below a
// directory that is drive C. Everything else is in a JSON file beside it: services run no
// program, certificates are trusted by nobody. What Windows does at a boot is done by the
// first call after one.
type UnixSystem struct {
	drive, file string
	boot        func() (string, error)
}

var _ engine.System = (*UnixSystem)(nil)

// NewUnixSystem returns a host whose drive C is a directory. boot tells boots apart.
func NewUnixSystem(drive string, boot func() (string, error)) *UnixSystem {
	return &UnixSystem{drive: drive, file: drive + ".json", boot: boot}
}

// unixState is what is in the JSON file. Names are in lower case.
type unixState struct {
	Boot         string
	Hostname     string
	NextHostname string
	Features     map[string]engine.FeatureState
	Environment  map[string]string
	Certificates map[string]bool
	Firewall     map[string]config.FirewallRule
	Exclusions   map[string]bool
	Services     map[string]*unixService
	Networks     map[string]bool
	Endpoints    map[string]bool
}

type unixService struct {
	Settings config.ServiceSettings
	Recovery *config.Recovery
	Running  bool
}

// read returns the state as of the present boot.
func (s *UnixSystem) read() (*unixState, error) {
	boot, err := s.boot()
	if err != nil {
		return nil, err
	}
	state := &unixState{Boot: boot}
	content, err := os.ReadFile(s.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		if err := json.Unmarshal(content, state); err != nil {
			return nil, fmt.Errorf("reading %s: %w", s.file, err)
		}
	}
	if state.Hostname == "" {
		if state.Hostname, err = os.Hostname(); err != nil {
			return nil, err
		}
		state.NextHostname = state.Hostname
	}
	fill(&state.Features)
	fill(&state.Environment)
	fill(&state.Certificates)
	fill(&state.Firewall)
	fill(&state.Exclusions)
	fill(&state.Services)
	fill(&state.Networks)
	fill(&state.Endpoints)
	if state.Boot != boot {
		state.start(boot)
	}
	return state, nil
}

func fill[T any](m *map[string]T) {
	if *m == nil {
		*m = map[string]T{}
	}
}

// start is what Windows does at a boot.
func (s *unixState) start(boot string) {
	s.Boot, s.Hostname = boot, s.NextHostname
	for name, state := range s.Features {
		if state == engine.FeaturePending {
			s.Features[name] = engine.FeatureEnabled
		}
	}
	for _, service := range s.Services {
		service.Running = service.Settings.StartType == config.StartAutomatic
	}
}

func (s *UnixSystem) change(change func(*unixState) error) error {
	state, err := s.read()
	if err != nil {
		return err
	}
	if err := change(state); err != nil {
		return err
	}
	content, err := json.MarshalIndent(state, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return err
	}
	return writeWhole(s.file, bytes.NewReader(content), 0o600)
}

// writeWhole writes a file that is there as a whole or not at all, also after a crash.
func writeWhole(path string, content io.Reader, mode fs.FileMode) (err error) {
	temporary := path + files.TemporarySuffix
	out, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close(), os.Remove(temporary))
		}
	}()
	if _, err := io.Copy(out, content); err != nil {
		return err
	}
	if err := errors.Join(out.Chmod(mode), out.Sync()); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// local is where a path is. Windows tells no cases apart, so what is there in another
// case is meant.
func (s *UnixSystem) local(path string) string {
	local := s.drive
	for _, name := range strings.Split(path[3:], `\`) {
		next := filepath.Join(local, name)
		if _, err := os.Lstat(next); err != nil {
			entries, _ := os.ReadDir(local) // what cannot be read has nothing in another case
			for _, e := range entries {
				if strings.EqualFold(e.Name(), name) {
					next = filepath.Join(local, e.Name())
				}
			}
		}
		local = next
	}
	return local
}

// Boot implements [engine.System].
func (s *UnixSystem) Boot(context.Context) (string, error) { return s.boot() }

// Lock implements [engine.System] with flock(2), which ends with the process.
func (s *UnixSystem) Lock(owner engine.Owner) (release func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.drive+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, err
		}
		var locked engine.LockedError
		// One who is just beginning has not written who it is.
		_ = json.NewDecoder(f).Decode(&locked.Owner)
		return nil, &locked
	}
	text, err := json.Marshal(owner)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// Value implements [engine.System] with made up values.
func (s *UnixSystem) Value(_ context.Context, v config.Variable) (string, error) {
	state, err := s.read()
	if err != nil {
		return "", err
	}
	switch v.Source {
	case config.SourceDefaultRouteAddress:
		return "127.0.0.1", nil
	case config.SourceFQDN, config.SourceAWSLocalHostname, config.SourceGCPHostname:
		return state.Hostname, nil
	case config.SourceHNSSubnet, config.SourceHNSManagementAddress:
		if !state.Networks[v.Network] {
			return "", engine.ErrNotYet
		}
		if v.Source == config.SourceHNSSubnet {
			return "10.132.0.0/24", nil
		}
		return "10.132.0.2", nil
	case config.SourceValue, config.SourceHNSEndpointAddress:
	}
	return "", fmt.Errorf("the host does not know values of source %q", v.Source)
}

// Probe implements [engine.System]. There is nothing to ask.
func (s *UnixSystem) Probe(context.Context, config.Health) error { return nil }

// Stat implements [engine.System].
func (s *UnixSystem) Stat(path string) (engine.FileInfo, error) {
	info, err := os.Lstat(s.local(path))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return engine.FileInfo{}, nil
	}
	if err != nil {
		return engine.FileInfo{}, err
	}
	out := engine.FileInfo{Kind: files.Kind(info.Mode()), Size: info.Size(), Modified: info.ModTime()}
	if info.Mode().Perm()&0o077 == 0 {
		out.Access = config.AccessAdministrators
	}
	return out, nil
}

// Open implements [engine.System].
func (s *UnixSystem) Open(path string) (io.ReadCloser, error) { return os.Open(s.local(path)) }

// Names implements [engine.System].
func (s *UnixSystem) Names(directory string) ([]string, error) {
	return files.Names(s.local(directory))
}

// modes are permissions of files and directories.
func modes(access config.Access) (file, directory fs.FileMode) {
	if access == config.AccessAdministrators {
		return 0o600, 0o700
	}
	return 0o644, 0o755
}

// WriteFile implements [engine.System].
func (s *UnixSystem) WriteFile(path string, content []byte, access config.Access) error {
	mode, _ := modes(access)
	return writeWhole(s.local(path), bytes.NewReader(content), mode)
}

// CopyFile implements [engine.System].
func (s *UnixSystem) CopyFile(from, to string, access config.Access) error {
	in, err := s.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	mode, _ := modes(access)
	return writeWhole(s.local(to), in, mode)
}

// Rename implements [engine.System].
func (s *UnixSystem) Rename(from, to string) error {
	return renameFile(s.local(from), s.local(to))
}

// renameFile replaces what is at the target, and returns when that is on the disk.
func renameFile(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(to))
}

// SetAccess implements [engine.System].
func (s *UnixSystem) SetAccess(path string, access config.Access) error {
	local := s.local(path)
	info, err := os.Lstat(local)
	if err != nil {
		return err
	}
	mode, directory := modes(access)
	if info.IsDir() {
		mode = directory
	}
	return os.Chmod(local, mode)
}

// MakeDirectory implements [engine.System].
func (s *UnixSystem) MakeDirectory(path string, access config.Access) error {
	_, mode := modes(access)
	if err := os.MkdirAll(s.drive, 0o755); err != nil {
		return err
	}
	local := s.local(path)
	if err := os.Mkdir(local, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDirectory(filepath.Dir(local))
}

// Remove implements [engine.System].
func (s *UnixSystem) Remove(path string) error {
	local := s.local(path)
	for _, name := range []string{local + files.TemporarySuffix, local} {
		err := os.Remove(name)
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
			return fmt.Errorf("%s: %w", path, engine.ErrNotEmpty)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// RemoveAtBoot implements [engine.System]. Nothing is ever in use, so nothing is left for it.
func (s *UnixSystem) RemoveAtBoot(path string) error { return s.Remove(path) }

// openShared opens a file that exists. It is in nobody's way.
func openShared(path string, write bool) (*os.File, error) {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR
	}
	return os.OpenFile(path, flag, 0)
}

// LogSize implements [engine.System].
func (s *UnixSystem) LogSize(path string) (int64, error) { return disk.LogSize(s.local(path)) }

// CopyLog implements [engine.System].
func (s *UnixSystem) CopyLog(path, target string) error {
	return disk.CopyLog(s.local(path), s.local(target))
}

// ReleaseLog implements [engine.System].
func (s *UnixSystem) ReleaseLog(path, copied string) (bool, error) {
	return disk.ReleaseLog(s.local(path), s.local(copied))
}

// Service implements [engine.System].
func (s *UnixSystem) Service(name string) (*engine.Service, error) {
	state, err := s.read()
	if err != nil {
		return nil, err
	}
	now := state.Services[strings.ToLower(name)]
	if now == nil {
		return nil, nil
	}
	service := &engine.Service{Settings: now.Settings, Recovery: now.Recovery, State: engine.ServiceStopped}
	if now.Running {
		service.State = engine.ServiceRunning
	}
	return service, nil
}

// CreateService implements [engine.System].
func (s *UnixSystem) CreateService(name string, settings config.ServiceSettings, recovery *config.Recovery) error {
	return s.change(func(state *unixState) error {
		if state.Services[strings.ToLower(name)] != nil {
			return fmt.Errorf("service %s is there", name)
		}
		state.Services[strings.ToLower(name)] = &unixService{Settings: settings, Recovery: recovery}
		return nil
	})
}

func (s *UnixSystem) changeService(name string, change func(*unixState, *unixService) error) error {
	return s.change(func(state *unixState) error {
		service := state.Services[strings.ToLower(name)]
		if service == nil {
			return fmt.Errorf("service %s is not there", name)
		}
		return change(state, service)
	})
}

// ConfigureService implements [engine.System].
func (s *UnixSystem) ConfigureService(name string, settings config.ServiceSettings, recovery *config.Recovery) error {
	return s.changeService(name, func(_ *unixState, service *unixService) error {
		service.Settings, service.Recovery = settings, recovery
		return nil
	})
}

// DeleteService implements [engine.System].
func (s *UnixSystem) DeleteService(name string) error {
	return s.change(func(state *unixState) error {
		delete(state.Services, strings.ToLower(name))
		return nil
	})
}

// overlayService is the program that makes the networks of a host, and their names; see
// github.com/ovn-kubernetes/ovn-kubernetes, go-controller/hybrid-overlay.
const overlayService = "hybrid-overlay-node"

var overlayNetworks = []string{"BaseOVNKubernetesHybridOverlayNetwork", "OVNKubernetesHybridOverlayNetwork"}

// StartService implements [engine.System]. The program of a service has to be there.
func (s *UnixSystem) StartService(name string) error {
	return s.changeService(name, func(state *unixState, service *unixService) error {
		program := strings.Trim(service.Settings.CommandLine, `"`)
		program, _, _ = strings.Cut(program, `"`)
		if _, err := os.Stat(s.local(program)); err != nil {
			program, _, _ = strings.Cut(program, " ")
			if _, err := os.Stat(s.local(program)); err != nil {
				return fmt.Errorf("the program of service %s: %w", name, err)
			}
		}
		for _, dependency := range service.Settings.Dependencies {
			if d := state.Services[strings.ToLower(dependency)]; d != nil && !d.Running {
				return fmt.Errorf("service %s needs %s, which does not run", name, dependency)
			}
		}
		service.Running = true
		if name == overlayService {
			for _, network := range overlayNetworks {
				state.Networks[network] = true
			}
		}
		return nil
	})
}

// StopService implements [engine.System].
func (s *UnixSystem) StopService(name string) error {
	return s.changeService(name, func(state *unixState, service *unixService) error {
		for other, o := range state.Services {
			if o.Running && slices.ContainsFunc(o.Settings.Dependencies, func(d string) bool { return strings.EqualFold(d, name) }) {
				return fmt.Errorf("service %s runs and needs %s", other, name)
			}
		}
		service.Running = false
		return nil
	})
}

// KillService implements [engine.System].
func (s *UnixSystem) KillService(name string) error {
	return s.changeService(name, func(_ *unixState, service *unixService) error {
		service.Running = false
		return nil
	})
}

// Hostname implements [engine.System].
func (s *UnixSystem) Hostname() (current, next string, err error) {
	state, err := s.read()
	if err != nil {
		return "", "", err
	}
	return state.Hostname, state.NextHostname, nil
}

// SetHostname implements [engine.System].
func (s *UnixSystem) SetHostname(name string) error {
	return s.change(func(state *unixState) error { state.NextHostname = name; return nil })
}

// Feature implements [engine.System].
func (s *UnixSystem) Feature(_ context.Context, name string) (engine.FeatureState, error) {
	state, err := s.read()
	if err != nil {
		return "", err
	}
	if f, ok := state.Features[name]; ok {
		return f, nil
	}
	return engine.FeatureDisabled, nil
}

// EnableFeature implements [engine.System].
func (s *UnixSystem) EnableFeature(_ context.Context, name string) error {
	return s.change(func(state *unixState) error { state.Features[name] = engine.FeaturePending; return nil })
}

// Environment implements [engine.System].
func (s *UnixSystem) Environment() (map[string]string, error) {
	state, err := s.read()
	if err != nil {
		return nil, err
	}
	return state.Environment, nil
}

// SetEnvironment implements [engine.System].
func (s *UnixSystem) SetEnvironment(name string, value *string) error {
	return s.change(func(state *unixState) error {
		for old := range state.Environment {
			if strings.EqualFold(old, name) {
				delete(state.Environment, old)
			}
		}
		if value != nil {
			state.Environment[name] = *value
		}
		return nil
	})
}

// has reads one thing that is there or not.
func (s *UnixSystem) has(set func(*unixState) map[string]bool, name string) (bool, error) {
	state, err := s.read()
	if err != nil {
		return false, err
	}
	return set(state)[name], nil
}

// put makes one thing be there or not.
func (s *UnixSystem) put(set func(*unixState) map[string]bool, name string, there bool) error {
	return s.change(func(state *unixState) error {
		delete(set(state), name)
		if there {
			set(state)[name] = true
		}
		return nil
	})
}

func unixCertificates(s *unixState) map[string]bool { return s.Certificates }
func unixExclusions(s *unixState) map[string]bool   { return s.Exclusions }
func unixNetworks(s *unixState) map[string]bool     { return s.Networks }
func unixEndpoints(s *unixState) map[string]bool    { return s.Endpoints }

// HasCertificate implements [engine.System].
func (s *UnixSystem) HasCertificate(store, fingerprint string) (bool, error) {
	return s.has(unixCertificates, strings.ToLower(store+"/"+fingerprint))
}

// AddCertificate implements [engine.System].
func (s *UnixSystem) AddCertificate(store string, der []byte) error {
	sum := sha256.Sum256(der)
	return s.put(unixCertificates, strings.ToLower(store+"/"+hex.EncodeToString(sum[:])), true)
}

// RemoveCertificate implements [engine.System].
func (s *UnixSystem) RemoveCertificate(store, fingerprint string) error {
	return s.put(unixCertificates, strings.ToLower(store+"/"+fingerprint), false)
}

// FirewallRule implements [engine.System].
func (s *UnixSystem) FirewallRule(name string) (*config.FirewallRule, error) {
	state, err := s.read()
	if err != nil {
		return nil, err
	}
	if rule, ok := state.Firewall[strings.ToLower(name)]; ok {
		return &rule, nil
	}
	return nil, nil
}

// SetFirewallRule implements [engine.System].
func (s *UnixSystem) SetFirewallRule(rule config.FirewallRule) error {
	return s.change(func(state *unixState) error { state.Firewall[strings.ToLower(rule.Name)] = rule; return nil })
}

// RemoveFirewallRule implements [engine.System].
func (s *UnixSystem) RemoveFirewallRule(name string) error {
	return s.change(func(state *unixState) error { delete(state.Firewall, strings.ToLower(name)); return nil })
}

// AntivirusExclusion implements [engine.System].
func (s *UnixSystem) AntivirusExclusion(program string) (bool, error) {
	return s.has(unixExclusions, strings.ToLower(program))
}

// SetAntivirusExclusion implements [engine.System].
func (s *UnixSystem) SetAntivirusExclusion(program string, excluded bool) error {
	return s.put(unixExclusions, strings.ToLower(program), excluded)
}

// HNSNetwork implements [engine.System].
func (s *UnixSystem) HNSNetwork(_ context.Context, name string) (bool, error) {
	return s.has(unixNetworks, name)
}

// RemoveHNSNetwork implements [engine.System].
func (s *UnixSystem) RemoveHNSNetwork(_ context.Context, name string) error {
	return s.put(unixNetworks, name, false)
}

// HNSEndpoint implements [engine.System].
func (s *UnixSystem) HNSEndpoint(_ context.Context, name string) (string, error) {
	there, err := s.has(unixEndpoints, name)
	if err == nil && !there {
		err = engine.ErrNotYet
	}
	return "10.132.0.3", err
}

// MakeHNSEndpoint implements [engine.System].
func (s *UnixSystem) MakeHNSEndpoint(_ context.Context, e config.HNSEndpoint) error {
	return s.put(unixEndpoints, e.Name, true)
}

// RemoveHNSEndpoint implements [engine.System].
func (s *UnixSystem) RemoveHNSEndpoint(_ context.Context, name string) error {
	return s.put(unixEndpoints, name, false)
}
