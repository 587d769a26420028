// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agenthost

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent"
	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/facts"
)

// certificateFiles are where a kubelet keeps its certificates.
var certificateFiles = []string{"/var/lib/kubelet/pki/*-current.pem", "/var/lib/kubelet/pki/*.crt"}

// Details implements [agent.Host].
func (h *Host) Details(_ context.Context, f *api.Facts) {
	facts.Certificates(f, certificateFiles)
}

// Facts collects what a Unix system tells. Its parts that come from /proc are
// missing, with an error, where there is no /proc.
func (h *Host) Facts(ctx context.Context) *api.Facts {
	f := &api.Facts{Time: facts.Time(h.Now()), CPUs: runtime.NumCPU()}
	f.Collect("system", func() error { return systemFacts(&f.System) })
	f.Collect("name", func() error { return nameFacts(&f.Name) })
	f.Collect("memory", func() error { return memoryFacts(&f.Memory) })
	f.Collect("disks", func() error {
		d, err := rootDisk()
		if err == nil {
			f.Disks = []api.Disk{d}
		}
		return err
	})
	f.Collect("boot", func() (err error) {
		f.Boot, err = h.Boot(ctx)
		return err
	})
	f.Collect("user", func() error { return userFacts(&f.User) })
	f.Collect("network", func() error {
		var err error
		f.Network.Interfaces, err = interfaces()
		return err
	})
	f.Collect("network/listening", func() error {
		var err error
		f.Network.Listening, err = listeners("/proc/net/tcp", "/proc/net/tcp6")
		return err
	})
	for _, kv := range os.Environ() {
		if k, v, _ := strings.Cut(kv, "="); facts.IsProxyVariable(k) {
			if f.Environment == nil {
				f.Environment = map[string]string{}
			}
			f.Environment[strings.ToUpper(k)] = facts.WithoutUserinfo(v)
		}
	}
	return f
}

func uptime() (time.Duration, error) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, fmt.Errorf("reading the uptime: %w", err)
	}
	first, _, _ := strings.Cut(string(b), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the uptime: %w", err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

func systemFacts(s *api.SystemFacts) error {
	s.OS, s.Architecture = runtime.GOOS, runtime.GOARCH
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		s.Version = strings.TrimSpace(string(b))
	}
	b, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return fmt.Errorf("reading the product: %w", err)
	}
	s.Product, s.Edition, s.Release = osRelease(string(b))
	return nil
}

// osRelease reads PRETTY_NAME, ID and VERSION_ID; see os-release(5).
func osRelease(text string) (product, id, release string) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "PRETTY_NAME":
			product = value
		case "ID":
			id = value
		case "VERSION_ID":
			release = value
		}
	}
	return product, id, release
}

func nameFacts(n *api.NameFacts) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	n.FQDN = name
	n.Hostname, _, _ = strings.Cut(name, ".")
	return nil
}

func memoryFacts(m *api.MemoryFacts) error {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return fmt.Errorf("reading the memory: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "MemTotal:":
			m.TotalBytes = kib << 10
		case "MemAvailable:":
			m.AvailableBytes = kib << 10
		}
	}
	return nil
}

func rootDisk() (api.Disk, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs("/", &st); err != nil {
		return api.Disk{}, fmt.Errorf("reading the size of /: %w", err)
	}
	size := uint64(st.Bsize)
	return api.Disk{Path: "/", System: true, TotalBytes: st.Blocks * size, FreeBytes: uint64(st.Bavail) * size}, nil //nolint:unconvert // see above
}

func userFacts(u *api.UserFacts) error {
	uid := os.Getuid()
	u.ID = strconv.Itoa(uid)
	u.Administrator, u.Elevated = uid == 0, uid == 0
	me, err := user.LookupId(u.ID)
	if err != nil {
		return err
	}
	u.Name = me.Username
	return nil
}

func interfaces() ([]api.Interface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing the adapters: %w", err)
	}
	var out []api.Interface
	for _, i := range list {
		n := api.Interface{
			Name: i.Name, Index: i.Index, MAC: i.HardwareAddr.String(), MTU: i.MTU,
			Up: i.Flags&net.FlagUp != 0, Loopback: i.Flags&net.FlagLoopback != 0,
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("reading the addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			n.Addresses = append(n.Addresses, a.String())
		}
		out = append(out, n)
	}
	return out, nil
}

// listeners reads the kernel's tables of TCP sockets; see proc_net_tcp.
func listeners(tables ...string) ([]api.Listener, error) {
	const stateListen = "0A"
	var out []api.Listener
	for _, table := range tables {
		f, err := os.Open(table)
		if err != nil {
			return out, fmt.Errorf("reading the listeners: %w", err)
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			if len(fields) < 4 || fields[3] != stateListen {
				continue
			}
			if l, ok := parseListener(fields[1]); ok && slices.Contains(agent.PortsOfInterest(), l.Port) {
				out = append(out, l)
			}
		}
		err = lines.Err()
		f.Close()
		if err != nil {
			return out, fmt.Errorf("reading the listeners: %w", err)
		}
	}
	return out, nil
}

// parseListener reads 0100007F:1F90. The address is in the order of the machine's
// 32-bit words, which is little endian on everything that this is tested on.
func parseListener(s string) (api.Listener, bool) {
	addr, port, ok := strings.Cut(s, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || len(addr)%8 != 0 || addr == "" {
		return api.Listener{}, false
	}
	ip := make(net.IP, 0, net.IPv6len)
	for i := 0; i < len(addr); i += 8 {
		word, err := strconv.ParseUint(addr[i:i+8], 16, 32)
		if err != nil {
			return api.Listener{}, false
		}
		ip = append(ip, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
	}
	return api.Listener{Port: int(n), Address: ip.String()}, true
}
