// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/agent/files"
)

// System is the host as the engine changes it.
func (h *Host) System() agent.System { return &windowsSystem{host: h, Disk: disk} }

// windowsSystem implements [agent.System] with Win32 calls.
type windowsSystem struct {
	host *Host
	files.Disk
}

// Boot implements [engine.System].
func (s *windowsSystem) Boot(ctx context.Context) (string, error) {
	boot, err := s.host.Boot(ctx)
	return boot.ID, err
}

// MachineID implements [engine.System].
func (s *windowsSystem) MachineID() string { return s.host.MachineID() }

// The mutex is global, as the service and SSH sessions are in different sessions of Windows.
const (
	lockName  = `Global\windows-node-agent`
	ownerFile = api.Root + `\owner.json`
)

// Lock implements [engine.System]. A mutex belongs to a thread, so one goroutine takes it,
// waits, and releases it. Windows releases that of a process that ended.
func (s *windowsSystem) Lock(owner engine.Owner) (release func() error, err error) {
	taken, done, ended := make(chan error), make(chan struct{}), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		mutex, err := takeMutex()
		taken <- err
		if err != nil {
			return
		}
		<-done
		err = windows.ReleaseMutex(mutex)
		ended <- errors.Join(err, windows.CloseHandle(mutex))
	}()
	if err := <-taken; err != nil {
		return nil, err
	}
	if owner.Command == api.CommandRun {
		// The service takes the lock each minute. It leaves the file, which nobody reads while
		// nobody has the lock.
		if readOwner().PID != owner.PID {
			writeOwner(owner)
		}
		return func() error { close(done); return <-ended }, nil
	}
	writeOwner(owner)
	return func() error {
		// The next owner of the mutex should not find the file of this one. Somebody who has it open keeps
		// it from being removed; then the next owner replaces it.
		_ = os.Remove(ownerFile)
		close(done)
		return <-ended
	}, nil
}

// writeOwner says who has the lock. It helps people only, so that it is no failure if it cannot.
func writeOwner(owner engine.Owner) {
	if text, err := json.Marshal(owner); err == nil {
		_ = writeWhole(ownerFile, bytes.NewReader(text), config.AccessAdministrators)
	}
}

// readOwner returns the zero value where there is no file, or half of one. The owner can remove the
// file meanwhile.
func readOwner() (owner engine.Owner) {
	in, err := openShared(ownerFile, false)
	if err != nil {
		return owner
	}
	_ = json.NewDecoder(in).Decode(&owner)
	_ = in.Close()
	return owner
}

// takeMutex does not wait.
func takeMutex() (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(lockName)
	if err != nil {
		return 0, err
	}
	// By default, administrators cannot take a mutex that the service created as SYSTEM.
	attributes, err := sddl("D:P(A;;GA;;;SY)(A;;GA;;;BA)").attributes()
	if err != nil {
		return 0, err
	}
	mutex, err := windows.CreateMutex(attributes, false, name)
	if mutex == 0 {
		return 0, fmt.Errorf("creating the mutex %s: %w", lockName, err)
	}
	event, err := windows.WaitForSingleObject(mutex, 0)
	switch {
	case err != nil:
		err = fmt.Errorf("taking the mutex %s: %w", lockName, err)
	case event == windows.WAIT_OBJECT_0 || event == windows.WAIT_ABANDONED:
		return mutex, nil
	default:
		err = &engine.LockedError{Owner: readOwner()}
	}
	return 0, errors.Join(err, windows.CloseHandle(mutex))
}

// metadataAddress is that of the metadata service of clouds.
const metadataAddress = "http://169.254.169.254"

// Value implements [engine.System].
func (s *windowsSystem) Value(ctx context.Context, v config.Variable) (string, error) {
	switch v.Source {
	case config.SourceDefaultRouteAddress:
		return nodeIP(v.Preferred)
	case config.SourceHostname:
		return computerName(windows.ComputerNamePhysicalDnsHostname)
	case config.SourceFQDN:
		return computerName(windows.ComputerNamePhysicalDnsFullyQualified)
	case config.SourceAWSLocalHostname:
		return awsLocalHostname(ctx, metadataAddress)
	case config.SourceGCPHostname:
		return gcpHostname(ctx, metadataAddress)
	case config.SourceHNSSubnet, config.SourceHNSManagementAddress:
		return hnsValue(ctx, v)
	case config.SourceValue, config.SourceKept, config.SourceHNSEndpointAddress:
	}
	return "", fmt.Errorf("source %q is not known", v.Source)
}

// nodeIP returns the IPv4 address of the node, see [nodeAddress].
func nodeIP(preferred []string) (string, error) {
	any4 := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	_, entries, err := routeEntries(any4.Addr())
	if err != nil {
		return "", err
	}
	best, err := defaultRoute(entries, api.Route{Destination: any4})
	if err != nil {
		return "", fmt.Errorf("%w: %w", err, engine.ErrNotYet)
	}
	list, err := interfaces()
	if err != nil {
		return "", err
	}
	unusable, err := unusableAddresses()
	if err != nil {
		return "", err
	}
	if address := nodeAddress(list, best.index, unusable, preferred); address != "" {
		return address, nil
	}
	return "", fmt.Errorf("no adapter with an IPv4 address has a default route: %w", engine.ErrNotYet)
}

// unusableAddresses returns the IPv4 addresses that the host may not send from: those of
// clusters, which go from host to host, and those that are not known to be its own yet.
func unusableAddresses() (map[string]bool, error) {
	var table *windows.MibUnicastIpAddressTable
	if err := windows.GetUnicastIpAddressTable(windows.AF_INET, &table); err != nil {
		return nil, fmt.Errorf("listing the addresses: %w", err)
	}
	defer windows.FreeMibTable(unsafe.Pointer(table))
	unusable := map[string]bool{}
	for _, row := range unsafe.Slice(&table.Table[0], table.NumEntries) {
		if row.SkipAsSource != 0 || row.DadState == windows.IpDadStateTentative || row.DadState == windows.IpDadStateDuplicate {
			address := (*windows.RawSockaddrInet4)(unsafe.Pointer(&row.Address)).Addr
			unusable[netip.AddrFrom4(address).String()] = true
		}
	}
	return unusable, nil
}

// Probe implements [engine.System].
func (s *windowsSystem) Probe(ctx context.Context, h config.Health) error {
	if h.URL != "" {
		return probeURL(ctx, h.URL)
	}
	name, err := windows.UTF16PtrFromString(h.Pipe)
	if err != nil {
		return err
	}
	pipe, err := windows.CreateFile(name, windows.GENERIC_READ, 0, nil, windows.OPEN_EXISTING, 0, 0)
	if errors.Is(err, windows.ERROR_PIPE_BUSY) {
		return nil // another client is connecting
	}
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", h.Pipe, err)
	}
	return windows.CloseHandle(pipe)
}

// Serve implements [agent.Host]. The service control manager refuses processes that it did not
// start: a call is the way to find out, also where the parent process is not known.
func (h *Host) Serve(ctx context.Context, run func(context.Context) error) error {
	service := &serviceHandler{ctx: ctx, run: run}
	err := svc.Run(api.ServiceName, service)
	if errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
		return run(ctx)
	}
	if err != nil {
		return fmt.Errorf("running as the service %s: %w", api.ServiceName, err)
	}
	return service.err
}

// stopProgress is how often the service says that it is still stopping.
const stopProgress = 5 * time.Second

// serviceHandler implements [svc.Handler].
type serviceHandler struct {
	ctx context.Context //nolint:containedctx // the interface has no other way in
	run func(context.Context) error
	err error
}

// Execute implements [svc.Handler].
func (s *serviceHandler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	// The service control manager is told that the stop makes progress: what the host is in the
	// middle of ends first, which may take minutes.
	stopping := svc.Status{State: svc.StopPending, WaitHint: uint32((2 * stopProgress).Milliseconds())}
	var progress <-chan time.Time
	// Windows stops the service of its updates before the shutdown. Who is in the middle of an installation has to learn the reason then.
	running := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown | svc.AcceptPreShutdown}
	status <- running
	for {
		select {
		case s.err = <-ended:
			status <- svc.Status{State: svc.StopPending}
			if s.err != nil {
				return true, 1
			}
			return false, 0
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown, svc.PreShutdown:
				status <- stopping
				cancel()
				if progress == nil {
					progress = time.Tick(stopProgress)
				}
			default:
			}
		case <-progress:
			stopping.CheckPoint++
			status <- stopping
		}
	}
}

// driftEvent is the ID of the event.
const driftEvent = 1

// ReportDrift implements [agent.Host].
func (h *Host) ReportDrift(message string) error {
	// The source is not registered, so that the registry keeps nothing of ours: viewers show
	// the text with a remark that there is no description.
	log, err := eventlog.Open(api.ServiceName)
	if err != nil {
		return fmt.Errorf("opening the event log: %w", err)
	}
	err = log.Warning(driftEvent, eventText(message))
	if err = errors.Join(err, log.Close()); err != nil {
		return fmt.Errorf("writing to the event log: %w", err)
	}
	return nil
}
