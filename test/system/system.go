// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

// Package system starts the whole of it on loopback: a real control plane, our API
// server behind a real APIService, and our controller, from the manifests of
// artifacts as far as they go without kubelets. Tests, benchmarks and the demo
// import it; nothing else may.
package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned"
	"github.com/openshift/windows-instance-api/test/controlplane"
	"github.com/openshift/windows-instance-api/test/openshift"
	"github.com/openshift/windows-instance-api/test/winhost"
)

const (
	// Namespace is that of our programs and of the legacy ConfigMap.
	Namespace = "openshift-windows-machine-config-operator"
	// machineNamespace is where OpenShift keeps MachineSets.
	machineNamespace = "openshift-machine-api"
	// apiService is the name of our APIService.
	apiService = "v1alpha1.windows.openshift.io"
	// serviceName is the name of the Service and of the account of our API server.
	serviceName = "windows-apiserver"
	// controllerName is the name of the account of our controller.
	controllerName = "windows-controller"
	// serviceNumber is which address of the service range our Service gets.
	serviceNumber = 10
	servicePort   = 443
)

// Options for [Start]. The zero value is good for tests.
type Options struct {
	// ControlPlane are the options of the control plane.
	ControlPlane controlplane.Options
	// PrivateKey is the cluster-wide key in PEM. Empty: there is no Secret.
	PrivateKey []byte
	// Install applies the manifests, of which what is for a cluster without kubelets is in directory overlay of [System.Dir], and
	// makes the Secret with PrivateKey. Nil: Start does.
	Install func(ctx context.Context, s *System, privateKey []byte) error
	// MachineAPI installs the CRDs of OpenShift's Machine API.
	MachineAPI bool
	// OpenShift is the platform of a cluster that has the kinds and objects of OpenShift, with its Machine API,
	// and stand-ins for its operators; our programs are installed from artifacts/openshift. Empty: it is
	// a cluster of kubeadm.
	OpenShift configv1.PlatformType
	// MaxMachineAge is for how long after the creation of a Machine the stand-in for the cluster-machine-approver of
	// OpenShift approves the first certificate of its host. Zero: two hours, as the real one.
	MaxMachineAge time.Duration
	// ExternalEtcd keeps the objects in the etcd of the control plane instead of in
	// the embedded one.
	ExternalEtcd bool
	// Payload is the directory of the payload that hosts are set up with; the cluster then
	// has what kubeadm leaves in one, unless it is one of OpenShift. Empty: hosts are watched only.
	Payload string
	// HostNetworks has hosts reach the API server at [winhost.Gateway], which those with a
	// network of their own do.
	HostNetworks bool
	// Programs is the directory that [Build] has returned. Empty: Start builds our programs, which costs seconds of
	// processor time even when nothing has changed.
	Programs string
	// RecordRights has kube-apiserver record what our programs ask it for; see [System.Requests].
	RecordRights bool
	// WithoutController leaves windows-controller out; [System.StartController] starts it later.
	WithoutController bool
	// APIServerArgs and ControllerArgs come after the arguments that Start sets.
	APIServerArgs, ControllerArgs []string
	// ServerEnv and ControllerEnv are added to the environment of windows-apiserver and windows-controller, as "KEY=value", and win
	// over that of the manifests.
	ServerEnv, ControllerEnv []string
	// Logf is told what Start does. Nil: nobody is.
	Logf func(format string, args ...any)
}

// System is a running system.
type System struct {
	*controlplane.ControlPlane
	// Server is windows-apiserver, Controller windows-controller.
	Server, Controller *controlplane.Process
	// ServerStart is how long windows-apiserver took to become ready.
	ServerStart time.Duration
	// ServerURL is where windows-apiserver itself listens; users go through the
	// control plane.
	ServerURL string
	// ControllerHealth is where windows-controller answers /healthz and /readyz.
	ControllerHealth string

	// Kube and Windows are clients with all rights.
	Kube    kubernetes.Interface
	Windows versioned.Interface

	// Cloud is what a cluster of OpenShift runs on, whose virtual machines it has to be told of; nil elsewhere.
	Cloud *openshift.Cloud

	options  Options
	relay    *winhost.Relay // nil without HostNetworks
	programs binaries
	// operators are those of OpenShift; nil elsewhere.
	operators *openshift.Operators
	// manifests are those of artifacts as they were applied.
	manifests manifests
	logf      func(format string, args ...any)
}

// Start builds our programs unless they are there, starts everything and returns when our API answers
// through kube-apiserver and the controller is ready. ctx bounds the start.
func Start(ctx context.Context, o Options) (*System, error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if o.Programs == "" {
		var err error
		if o.Programs, err = Build(ctx, o.Logf); err != nil {
			return nil, err
		}
	}
	if o.ControlPlane.Logf == nil {
		o.ControlPlane.Logf = o.Logf
	}
	if o.HostNetworks {
		o.ControlPlane.ExtraSANs = append(o.ControlPlane.ExtraSANs, winhost.Gateway)
	}
	if o.RecordRights {
		o.ControlPlane.AuditPolicy = auditPolicy
	}
	cp, err := controlplane.Start(ctx, o.ControlPlane)
	if err != nil {
		return nil, err
	}
	s := &System{ControlPlane: cp, options: o, programs: binariesIn(o.Programs), logf: o.Logf}
	// Our programs read the agent when they start and when they first put it on a host:
	// another build must not change it in between.
	agents := filepath.Join(cp.Dir(), "agent")
	if err := os.CopyFS(agents, os.DirFS(s.programs.agentDir)); err != nil {
		return nil, errors.Join(fmt.Errorf("copying the agent: %w", err), cp.Stop())
	}
	s.programs.agentDir = agents
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Stop ends everything.
func (s *System) Stop() error {
	var errs []error
	if s.relay != nil {
		errs = append(errs, s.relay.Close())
	}
	if s.operators != nil {
		errs = append(errs, s.operators.Stop())
	}
	return errors.Join(append(errs, s.ControlPlane.Stop())...)
}

func (s *System) start(ctx context.Context) error {
	var err error
	config := s.AdminConfig()
	config.QPS, config.Burst = 500, 1000
	if s.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if s.Windows, err = versioned.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, step := range []struct {
		doing string
		do    func(context.Context) error
	}{
		{"installing OpenShift", s.installOpenShift},
		{"applying the manifests of artifacts", s.applyArtifacts},
		{"installing the Machine API", s.installMachineAPI},
		{"creating what kubeadm creates", s.createKubeadm},
		{"creating the Secret with the key", s.createKey},
		{"starting windows-apiserver", s.startServer},
		{"starting windows-controller", s.startFirstController},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.doing, err)
		}
		s.logf("%s: %.1f s", step.doing, time.Since(began).Seconds())
	}
	return nil
}

// Reinstall installs our programs again after their namespace was deleted. They end, as they
// would with their pods, and what was on their volume is lost with it.
func (s *System) Reinstall(ctx context.Context) error {
	if err := errors.Join(s.Controller.Stop(), s.Server.Stop(), os.RemoveAll(s.dataDir())); err != nil {
		return fmt.Errorf("removing what was installed: %w", err)
	}
	for _, step := range []func(context.Context) error{s.applyArtifacts, s.createKey, s.startServer, s.startFirstController} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("installing again: %w", err)
		}
	}
	return nil
}

// dataDir is where windows-apiserver keeps its objects.
func (s *System) dataDir() string { return filepath.Join(s.Dir(), "windows-apiserver") }

// overlay makes of artifacts/base, or another one, what a cluster without kubelets takes.
const overlay = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- %s/%s
- endpoints.yaml
patches:
- target: {kind: Service, name: windows-apiserver}
  patch: |
    - {op: add, path: /spec/clusterIP, value: %s}
    - {op: remove, path: /spec/selector}
    - {op: remove, path: /spec/ports/0/targetPort}
`

// endpoints satisfies kube-apiserver, which wants to see an endpoint of the Service
// before it asks whether the API answers. Requests go to the cluster IP, on which
// our server listens itself. The address is from TEST-NET-1 (RFC 5737).
const endpoints = `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: windows-apiserver
  namespace: openshift-windows-machine-config-operator
  labels: {kubernetes.io/service-name: windows-apiserver}
addressType: IPv4
ports: [{name: https, port: 443, protocol: TCP}]
endpoints: [{addresses: [192.0.2.10], conditions: {ready: true}}]
`

func (s *System) applyArtifacts(ctx context.Context) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.Dir(), "overlay")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// kustomize takes no absolute paths.
	artifacts, err := filepath.Rel(dir, filepath.Join(root, "artifacts"))
	if err != nil {
		return err
	}
	applied := "base"
	if s.options.OpenShift != "" {
		applied = "openshift"
	}
	for name, content := range map[string]string{
		"kustomization.yaml": fmt.Sprintf(overlay, artifacts, applied, s.ServiceIP(serviceNumber)),
		"endpoints.yaml":     endpoints,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	rendered, err := s.Kubectl(ctx, "kustomize", dir)
	if err != nil {
		return err
	}
	if s.manifests, err = decodeManifests(rendered); err != nil {
		return err
	}
	if s.options.Install != nil {
		return s.options.Install(ctx, s, s.options.PrivateKey)
	}
	_, err = s.Kubectl(ctx, "apply", "-k", dir)
	return err
}

func (s *System) installMachineAPI(ctx context.Context) error {
	if !s.options.MachineAPI || s.options.OpenShift != "" {
		return nil
	}
	crds, err := controlplane.OpenShiftCRDs(ctx)
	if err != nil {
		return err
	}
	if err := s.InstallCRDs(ctx, crds...); err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	if err := s.EnsureNamespace(ctx, machineNamespace); err != nil {
		return err
	}
	_, err = s.Kubectl(ctx, "apply", "-f", filepath.Join(root, "artifacts", "openshift", "machine-api.yaml"))
	return err
}

func (s *System) createKey(ctx context.Context) error {
	if len(s.options.PrivateKey) == 0 || s.options.Install != nil {
		return nil
	}
	_, err := s.Kube.CoreV1().Secrets(Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud-private-key", Namespace: Namespace},
		Data:       map[string][]byte{"private-key.pem": s.options.PrivateKey},
	}, metav1.CreateOptions{})
	return err
}

// allowedHosts opens the loopback addresses of stand-ins for hosts, some of which are beside those of
// the control plane. Those of Services stay closed.
func (s *System) allowedHosts() string {
	return fmt.Sprintf("--allowed-host-cidrs=127.0.0.0/10,::1/128,%s", netip.PrefixFrom(s.HostIP(), 25).Masked())
}

func (s *System) startServer(ctx context.Context) error {
	kubeconfig, err := s.ServiceAccountKubeconfig(ctx, Namespace, serviceName)
	if err != nil {
		return err
	}
	args, env, err := s.command(ctx, serviceName)
	if err != nil {
		return err
	}
	ip := s.ServiceIP(serviceNumber).String()
	s.ServerURL = fmt.Sprintf("https://%s:%d", ip, servicePort)
	// The last one of several counts.
	args = append(args,
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--bind-address="+ip,
		fmt.Sprintf("--secure-port=%d", servicePort),
		"--agent-dir="+s.programs.agentDir,
		s.allowedHosts(),
		"--payload="+s.options.Payload,
		"--data-dir="+s.dataDir(),
		"--shutdown-delay-duration=0s",
	)
	if s.options.ExternalEtcd {
		args = append(args, "--etcd-servers="+s.EtcdURL())
	}
	began := time.Now()
	s.Server, err = s.StartProcess(ctx, controlplane.Command{
		Name:    "windows-apiserver",
		Path:    s.programs.apiServer,
		Args:    append(args, s.options.APIServerArgs...),
		Env:     slices.Concat(os.Environ(), env, s.options.ServerEnv),
		LogFile: filepath.Join(s.Dir(), "log", "windows-apiserver.log"),
		Ready:   func(ctx context.Context) error { return s.ServerReady(ctx) },
		OnDeath: s.died,
	})
	if err != nil {
		return err
	}
	s.ServerStart = time.Since(began)
	return s.WaitForAPIService(ctx, apiService)
}

// ServerReady asks windows-apiserver itself whether it is ready.
func (s *System) ServerReady(ctx context.Context) error {
	return s.ServerGet(ctx, "/readyz", io.Discard)
}

// ServerCABundle is what verifies the certificate of windows-apiserver, which it makes itself unless the service CA
// of OpenShift does.
func (s *System) ServerCABundle(ctx context.Context) ([]byte, error) {
	if s.options.OpenShift != "" {
		return s.ServingCABundle(), nil
	}
	secret, err := s.Kube.CoreV1().Secrets(Namespace).Get(ctx, "windows-apiserver-serving-cert", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate: %w", err)
	}
	return secret.Data["ca.crt"], nil
}

// ServerGet gets a path from windows-apiserver itself, without credentials.
func (s *System) ServerGet(ctx context.Context, path string, to io.Writer) error {
	bundle, err := s.ServerCABundle(ctx)
	if err != nil {
		return err
	}
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CAData: bundle, ServerName: fmt.Sprintf("%s.%s.svc", serviceName, Namespace),
	}})
	if err != nil {
		return err
	}
	return get(ctx, &http.Client{Transport: transport}, s.ServerURL+path, to)
}

func (s *System) startFirstController(ctx context.Context) error {
	if s.options.WithoutController {
		return nil
	}
	return s.StartController(ctx)
}

// StartController starts windows-controller, when none runs. The arguments come after all
// others.
func (s *System) StartController(ctx context.Context, args ...string) error {
	kubeconfig, err := s.ServiceAccountKubeconfig(ctx, Namespace, controllerName)
	if err != nil {
		return err
	}
	manifest, env, err := s.command(ctx, controllerName)
	if err != nil {
		return err
	}
	health := fmt.Sprintf("%s:8081", s.HostIP())
	s.ControllerHealth = "http://" + health
	s.Controller, err = s.StartProcess(ctx, controlplane.Command{
		Name: "windows-controller",
		Path: s.programs.controller,
		Args: slices.Concat(manifest, []string{
			"--kubeconfig=" + kubeconfig,
			"--namespace=" + Namespace,
			"--agent-dir=" + s.programs.agentDir,
			s.allowedHosts(),
			"--node-settle-time=1s",
			// There is one, and a leader that was killed keeps its Lease for minutes.
			"--leader-elect=false",
			"--health-probe-bind-address=" + health,
			fmt.Sprintf("--metrics-bind-address=%s:8443", s.HostIP()),
			"--payload=" + s.options.Payload,
		}, s.options.ControllerArgs, args),
		Env:     slices.Concat(os.Environ(), env, s.options.ControllerEnv),
		LogFile: filepath.Join(s.Dir(), "log", "windows-controller.log"),
		Ready:   func(ctx context.Context) error { return s.ControllerReady(ctx) },
		OnDeath: s.died,
	})
	return err
}

// died tells of a program that ended by itself when it does: tests wait for what it does not do any more.
func (s *System) died(e *controlplane.ExitError) {
	if s.options.Logf != nil {
		s.options.Logf("%v", e)
	}
}

// ControllerReady asks windows-controller whether it is ready.
func (s *System) ControllerReady(ctx context.Context) error {
	return get(ctx, http.DefaultClient, s.ControllerHealth+"/readyz", io.Discard)
}

func get(ctx context.Context, client *http.Client, url string, to io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		return fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	_, err = io.Copy(to, response.Body)
	return err
}
