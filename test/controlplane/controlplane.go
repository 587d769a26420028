// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// startAttempts is how often a process is started whose port was taken between
// being found free and being used.
const startAttempts = 5

// Options for [Start]. The zero value is good for tests.
type Options struct {
	// BinDir has the binaries. Empty means what [BinDir] finds or builds.
	BinDir string

	// Dir takes certificates, kubeconfigs, data and, below log/, the logs. It
	// must be empty or not exist yet; Stop removes it. Empty means a new
	// directory below os.TempDir.
	Dir string

	// KeepDir leaves Dir behind after Stop and after a failed Start.
	KeepDir bool

	// Logf is told what Start does and how long each step took. It must be safe
	// for concurrent use. Nil means quiet.
	Logf func(format string, args ...any)

	// Fsync makes etcd wait for the disk, as it does in production. Without it
	// nothing is lost when processes are killed, only when the machine is; so
	// only benchmarks want it.
	Fsync bool

	// AggregatorRouting makes the API server send requests for an aggregated API
	// to the addresses in EndpointSlices instead of to the Service's cluster IP,
	// as OpenShift does. EndpointSlices take no loopback addresses, so this needs
	// a network namespace with addresses of its own; see APIService.Endpoints.
	AggregatorRouting bool

	// ExtraSANs are names and IP addresses besides its own that the API server's
	// certificate is good for, such as that of a relay in front of it.
	ExtraSANs []string

	// AuditPolicy (audit.k8s.io/v1) says what the API server writes to AuditLogs. Empty:
	// nothing.
	AuditPolicy string

	// Restore continues a control plane that is no more. Nil: it is a new one.
	Restore *Restore

	// Env is added to the environment of the processes, as "KEY=value". They do not have that of this process.
	Env []string

	// Arguments for the processes, after those that Start sets and winning over
	// them.
	EtcdArgs              []string
	APIServerArgs         []string
	ControllerManagerArgs []string
}

// ControlPlane is a running control plane. Its methods may be called from
// several goroutines.
type ControlPlane struct {
	// The processes, for tests that break things. All of them restart with the
	// addresses they had.
	Etcd              *Process
	APIServer         *Process
	ControllerManager *Process

	options Options
	binDir  string
	dir     string
	block   *block

	clusterCA     *authority // clients, the API server, kubelets
	frontProxyCA  *authority // the API server as a client of aggregated servers
	servingCA     *authority // aggregated servers and webhooks, see ServingCert
	apiServerPair KeyPair
	kubeletClient KeyPair
	frontProxy    KeyPair
	managerPair   KeyPair

	etcdURL      string
	apiServerURL string
	admin        *rest.Config

	failOnce sync.Once
	failed   chan struct{}
	failure  error // set when failed is closed

	mu    sync.Mutex // guards extra
	extra []*Process // started by StartProcess

	stopOnce sync.Once
	stopErr  error
}

// Start starts a control plane and returns when it answers, has its bootstrap
// roles and a controller manager that does its work. ctx bounds the start, not
// the life, which lasts until Stop. A process that dies early is reported with
// the end of its log.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	cp := &ControlPlane{options: o, failed: make(chan struct{})}
	if err := cp.start(ctx); err != nil {
		// What went wrong at the start explains whatever goes wrong at the end.
		_ = cp.Stop()
		return nil, fmt.Errorf("starting a control plane: %w", err)
	}
	return cp, nil
}

func (cp *ControlPlane) start(ctx context.Context) error {
	var err error
	if cp.binDir = cp.options.BinDir; cp.binDir == "" {
		cp.binDir, err = BinDir(ctx, cp.options.Logf)
	} else {
		err = checkBinaries(cp.binDir)
	}
	if err != nil {
		return err
	}
	began := time.Now()
	if cp.dir, err = makeDir(cp.options.Dir); err != nil {
		return err
	}
	if cp.block, err = cp.claimBlock(ctx); err != nil {
		return err
	}
	if err := cp.createPKI(); err != nil {
		return err
	}
	for _, step := range []struct {
		name  string
		start func(context.Context) error
	}{
		{"etcd", cp.startEtcd},
		{"what etcd held before", cp.restoreEtcd},
		{"kube-apiserver", cp.startAPIServer},
		{"kube-controller-manager", cp.startControllerManager},
	} {
		if err := step.start(ctx); err != nil {
			return err
		}
		cp.options.Logf("control plane: %s is ready after %.1f s", step.name, time.Since(began).Seconds())
	}
	return nil
}

// makeDir returns an absolute path to an empty directory.
func makeDir(dir string) (string, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "controlplane-")
		if err != nil {
			return "", fmt.Errorf("creating the run directory: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("finding the run directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the run directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("reading the run directory: %w", err)
	}
	if len(entries) > 0 {
		// It will be removed, with whatever is in it.
		return "", fmt.Errorf("the run directory %s is not empty", dir)
	}
	return dir, nil
}

// createPKI creates every key and certificate there is when the control plane
// starts.
func (cp *ControlPlane) createPKI() error {
	dir := cp.path("pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating certificates: %w", err)
	}
	if err := cp.restoreCA(dir); err != nil {
		return err
	}
	for _, ca := range []struct {
		name string
		out  **authority
	}{
		{"ca", &cp.clusterCA},
		{"front-proxy-ca", &cp.frontProxyCA},
		{"serving-ca", &cp.servingCA},
	} {
		if *ca.out != nil {
			continue // restored
		}
		var err error
		if *ca.out, err = newAuthority(dir, ca.name, ca.name); err != nil {
			return err
		}
	}
	host := cp.block.host().String()
	for _, pair := range []struct {
		out  *KeyPair
		ca   *authority
		name string
		leaf leaf
	}{
		{&cp.apiServerPair, cp.clusterCA, "kube-apiserver", leaf{
			commonName: "kube-apiserver",
			usage:      serverAuth,
			hosts: append([]string{
				"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
				"localhost", host, cp.block.serviceIP(1).String(),
			}, cp.options.ExtraSANs...),
		}},
		{&cp.kubeletClient, cp.clusterCA, "kube-apiserver-kubelet-client", leaf{
			commonName: "kube-apiserver-kubelet-client", organizations: []string{"system:masters"}, usage: clientAuth,
		}},
		{&cp.frontProxy, cp.frontProxyCA, "front-proxy-client", leaf{commonName: frontProxyName, usage: clientAuth}},
		{&cp.managerPair, cp.clusterCA, "kube-controller-manager", leaf{
			commonName: "kube-controller-manager", usage: serverAuth, hosts: []string{"localhost", host},
		}},
	} {
		var err error
		if *pair.out, err = pair.ca.issueFiles(pair.name, pair.leaf); err != nil {
			return err
		}
	}
	return writeServiceAccountKeys(cp.path("pki", "sa.pub"), cp.path("pki", "sa.key"))
}

// startOnFreePorts starts a process that listens on n ports of the block. Ports
// are found by asking for free ones, so another process may be faster; then the
// start is tried again with others.
func (cp *ControlPlane) startOnFreePorts(ctx context.Context, n int, command func(ports []int) (Command, error)) (*Process, error) {
	for attempt := 1; ; attempt++ {
		ports := make([]int, n)
		for i := range ports {
			var err error
			if ports[i], err = freePort(cp.block.host()); err != nil {
				return nil, err
			}
		}
		c, err := command(ports)
		if err != nil {
			return nil, err
		}
		c.LogFile = cp.path("log", c.Name+".log")
		c.Env = cp.environment()
		c.OnDeath = cp.fail
		p, err := StartProcess(ctx, c)
		if err == nil {
			return p, nil
		}
		var exit *ExitError
		if attempt == startAttempts || !errors.As(err, &exit) || !strings.Contains(exit.LogTail, "address already in use") {
			return nil, err
		}
		cp.options.Logf("control plane: a port of %s was taken meanwhile, trying others", c.Name)
	}
}

func (cp *ControlPlane) startEtcd(ctx context.Context) error {
	var err error
	cp.Etcd, err = cp.startOnFreePorts(ctx, 2, func(ports []int) (Command, error) {
		cp.etcdURL = "http://" + cp.hostPort(ports[0])
		return Command{
			Name:  "etcd",
			Path:  filepath.Join(cp.binDir, "etcd"),
			Args:  append(etcdArgs(cp.path("etcd"), cp.etcdURL, "http://"+cp.hostPort(ports[1]), cp.options.Fsync), cp.options.EtcdArgs...),
			Ready: httpOK(cp.etcdURL + "/readyz"),
		}, nil
	})
	return err
}

func (cp *ControlPlane) startAPIServer(ctx context.Context) error {
	var err error
	cp.APIServer, err = cp.startOnFreePorts(ctx, 1, func(ports []int) (Command, error) {
		if cp.options.Restore != nil {
			ports[0] = cp.options.Restore.Port
		}
		cp.apiServerURL = "https://" + cp.hostPort(ports[0])
		var err error
		if cp.admin, err = cp.UserConfig("kubernetes-admin", "system:masters"); err != nil {
			return Command{}, err
		}
		if err := writeKubeconfig(cp.KubeconfigPath(), cp.admin); err != nil {
			return Command{}, err
		}
		client, err := kubernetes.NewForConfig(cp.admin)
		if err != nil {
			return Command{}, fmt.Errorf("creating a client: %w", err)
		}
		audit, err := cp.auditArgs()
		if err != nil {
			return Command{}, err
		}
		return Command{
			Name:  "kube-apiserver",
			Path:  filepath.Join(cp.binDir, "kube-apiserver"),
			Args:  slices.Concat(cp.apiServerArgs(ports[0]), audit, cp.options.APIServerArgs),
			Ready: func(ctx context.Context) error { return apiServerReady(ctx, client) },
		}, nil
	})
	return err
}

func (cp *ControlPlane) startControllerManager(ctx context.Context) error {
	kubeconfig, err := cp.WriteKubeconfig("kube-controller-manager", "system:kube-controller-manager")
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cp.admin)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	cp.ControllerManager, err = cp.startOnFreePorts(ctx, 1, func(ports []int) (Command, error) {
		return Command{
			Name: "kube-controller-manager",
			Path: filepath.Join(cp.binDir, "kube-controller-manager"),
			Args: append(cp.controllerManagerArgs(kubeconfig, ports[0]), cp.options.ControllerManagerArgs...),
			Ready: func(ctx context.Context) error {
				_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
				return err
			},
		}, nil
	})
	return err
}

// apiServerReady says whether the server is ready and has published what
// aggregated servers need to recognize the front proxy, which it does a moment
// later.
func apiServerReady(ctx context.Context, client kubernetes.Interface) error {
	if body, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Raw(); err != nil {
		if len(body) > 0 {
			return fmt.Errorf("%w: %s", err, body)
		}
		return err
	}
	config, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if config.Data["requestheader-client-ca-file"] == "" {
		return errors.New("the front proxy's certificate authority is not published yet")
	}
	return nil
}

// StartProcess starts one more process that belongs to the control plane, such
// as an aggregated server: Stop ends it first, Failed tells of its death. Its
// log is in the directory log/ of the run directory unless the command names
// another place.
func (cp *ControlPlane) StartProcess(ctx context.Context, c Command) (*Process, error) {
	if c.LogFile == "" {
		c.LogFile = cp.path("log", c.Name+".log")
	}
	onDeath := c.OnDeath
	c.OnDeath = func(err *ExitError) {
		cp.fail(err)
		if onDeath != nil {
			onDeath(err)
		}
	}
	p, err := StartProcess(ctx, c)
	if err != nil {
		return nil, err
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.extra = append(cp.extra, p)
	return p, nil
}

// Failed returns a channel that is closed when a process has died unexpectedly.
// Ends that were asked for, by Stop, Kill9 or Restart, do not count.
func (cp *ControlPlane) Failed() <-chan struct{} { return cp.failed }

// Err returns nil while all is well, and an [*ExitError] about the first process
// that died unexpectedly.
func (cp *ControlPlane) Err() error {
	select {
	case <-cp.failed:
		return cp.failure
	default:
		return nil
	}
}

func (cp *ControlPlane) fail(err *ExitError) {
	cp.failOnce.Do(func() {
		cp.failure = err
		close(cp.failed)
	})
}

// Stop ends all processes in the reverse order of their start and removes the
// run directory unless Options.KeepDir is set. It returns an error when one of
// them had to be killed. Calling it again does nothing and returns the same.
func (cp *ControlPlane) Stop() error {
	cp.stopOnce.Do(func() { cp.stopErr = cp.stop() })
	return cp.stopErr
}

func (cp *ControlPlane) stop() error {
	cp.mu.Lock()
	processes := append([]*Process{cp.Etcd, cp.APIServer, cp.ControllerManager}, cp.extra...)
	cp.mu.Unlock()

	var errs []error
	for _, p := range slices.Backward(processes) {
		switch {
		case p == nil: // the start did not get that far
		case p == cp.APIServer && ended(cp.Etcd):
			// It would wait for an etcd that is gone.
			p.Kill9()
		default:
			errs = append(errs, p.Stop())
		}
	}
	if cp.block != nil {
		if err := cp.block.release(); err != nil {
			errs = append(errs, fmt.Errorf("giving loopback addresses back: %w", err))
		}
	}
	if cp.dir != "" && !cp.options.KeepDir {
		if err := os.RemoveAll(cp.dir); err != nil {
			errs = append(errs, fmt.Errorf("removing the run directory: %w", err))
		}
	}
	return errors.Join(errs...)
}

func ended(p *Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// Dir returns the run directory.
func (cp *ControlPlane) Dir() string { return cp.dir }

// URL returns the API server's address, https://<ip>:<port>.
func (cp *ControlPlane) URL() string { return cp.apiServerURL }

// EtcdURL returns the address of etcd, http://<ip>:<port>, for a server that
// shares it. etcd asks nobody on this machine who they are.
func (cp *ControlPlane) EtcdURL() string { return cp.etcdURL }

// ServiceRange returns the network of Services.
func (cp *ControlPlane) ServiceRange() netip.Prefix { return cp.block.serviceRange() }

// ServiceIP returns the nth address of the Service range, which a process on
// this machine can listen on. 1 is that of the Service kubernetes; 2 to 15 are
// for the caller, as the API server gives Services that ask for none an address
// from 16 on. It panics for an n outside 1 to 127.
func (cp *ControlPlane) ServiceIP(n int) netip.Addr {
	if n < 1 || n > 127 {
		panic(fmt.Sprintf("controlplane: there is no Service IP number %d", n))
	}
	return cp.block.serviceIP(n)
}

// HostIP returns the address the control plane's processes listen on. It is the
// caller's to listen on as well, with port 0.
func (cp *ControlPlane) HostIP() netip.Addr { return cp.block.host() }

// path returns a path in the run directory.
func (cp *ControlPlane) path(elements ...string) string {
	return filepath.Join(append([]string{cp.dir}, elements...)...)
}

func (cp *ControlPlane) hostPort(port int) string {
	return netip.AddrPortFrom(cp.block.host(), uint16(port)).String()
}
