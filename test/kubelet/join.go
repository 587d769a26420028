// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

const (
	// leaseSeconds is after how long kube-controller-manager takes a Node for lost, and
	// renewInterval how often a kubelet says that it is not.
	leaseSeconds  = 40
	renewInterval = 10 * time.Second
	// statusInterval is how often a status is written that has not changed, and compareInterval how often a kubelet compares it with
	// what its Node says: nodeStatusReportFrequency and nodeStatusUpdateFrequency of a kubelet that is not told otherwise.
	statusInterval  = 5 * time.Minute
	compareInterval = 10 * time.Second
	// lookInterval is how often is looked whether it has.
	lookInterval = 250 * time.Millisecond
	// defaultVersion is that of a kubelet whose program does not say.
	defaultVersion = "v1.37.1"
)

// JoinOptions say what host a kubelet runs on.
type JoinOptions struct {
	// Drive is the directory of this machine that is drive C of the host.
	Drive string
	// CommandLine is that of the service.
	CommandLine string
	// Hostname is how the host calls itself.
	Hostname string
	// Address is that of the host, if the command line does not say.
	Address string
	// BootID says which boot the host is in.
	BootID string
	// OSVersion is the version of Windows, with its build. Empty: that of Windows Server 2022.
	OSVersion string
	// Logf is told what happens, besides the log file of the command line. Nil: nobody is.
	Logf func(format string, args ...any)
}

// Join does what the kubelet of a host does: it reads what it finds on the host, gets its
// client certificate with the bootstrap credentials if it has none yet, registers the Node
// under its own name, says in a Lease and in the status that it is alive, asks for its
// serving certificate, and looks after pods. Its Node is ready when it is about to have
// networks for pods: when there is a configuration for CNI, or nothing on the host that
// would make one.
//
// It returns when ctx ends, or at once with an error where a kubelet would exit because of
// what is on the host. The API server may be away meanwhile.
func Join(ctx context.Context, o JoinOptions) error {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if o.OSVersion == "" {
		o.OSVersion = "10.0.20348.2700"
	}
	line, err := parseCommandLine(o.CommandLine)
	if err != nil {
		return err
	}
	j := &joined{JoinOptions: o, commandLine: line, drive: drive(o.Drive)}
	closeLog, err := j.openLog()
	if err != nil {
		return err
	}
	defer closeLog()
	if err := j.configure(); err != nil {
		j.Logf("the kubelet ends: %v", err)
		return err
	}
	return j.run(ctx)
}

// joined is the kubelet of a host.
type joined struct {
	JoinOptions
	*commandLine
	drive

	node     string // name
	address  net.IP
	settings kubeletv1beta1.KubeletConfiguration
	client   kubernetes.Interface

	nodes    listers.NodeLister
	lease    *coordinationv1.Lease // as it was renewed last; nil: it is read first
	reported time.Time             // when the status was written last
	compared time.Time             // when it was last found to be what the Node says
	ready    bool                  // what it said
	since    time.Time
}

// openLog makes Logf write to the log file, too.
func (j *joined) openLog() (closeLog func(), err error) {
	if j.logFile == "" {
		return func() {}, nil
	}
	path := j.local(j.logFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	logf := j.Logf
	j.Logf = func(format string, args ...any) {
		logf(format, args...)
		now := time.Now()
		// The header of klog; the rest of a line has no line break.
		fmt.Fprintf(file, "I%s %7d kubelet.go:1] %s\n", now.Format("0102 15:04:05.000000"), 1, //nolint:errcheck // a full disk does not end a kubelet
			strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
	}
	return func() { _ = file.Close() }, nil
}

// configure reads what the kubelet was given.
func (j *joined) configure() error {
	text, err := j.read(j.config)
	if err != nil {
		return fmt.Errorf("failed to load kubelet config file: %w", err)
	}
	if err := yaml.UnmarshalStrict(text, &j.settings); err != nil {
		return fmt.Errorf("failed to load kubelet config file %s: %w", j.config, err)
	}
	if ca := j.settings.Authentication.X509.ClientCAFile; ca != "" {
		if _, err := j.read(ca); err != nil {
			return fmt.Errorf("unable to load client CA file: %w", err)
		}
	}
	j.node = strings.ToLower(j.hostnameOverride)
	if j.node == "" {
		j.node = strings.ToLower(j.Hostname)
	}
	address := j.nodeIP
	if address == "" {
		address = j.Address
	}
	if j.address = net.ParseIP(address); j.address == nil {
		return fmt.Errorf("%q is no IP address", address)
	}
	return nil
}

func (j *joined) run(ctx context.Context) error {
	// What is started below ends with this function.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	credentials := newCredentials(j.drive, j.commandLine, j.node, j.Logf)
	defer credentials.dialer.CloseAll()
	var err error
	j.client, err = credentials.connect(ctx)
	if err != nil {
		if ctx.Err() == nil {
			j.Logf("the kubelet ends: %v", err)
			return err
		}
		return nil
	}
	j.Logf("the client certificate of node %s is there", j.node)
	if j.retry(ctx, "registering the node", j.register) != nil {
		return nil
	}
	j.Logf("node %s is registered", j.node)
	if j.settings.ServerTLSBootstrap {
		if err := credentials.serve(ctx, j.client, j.address, j.node); err != nil {
			return err
		}
	}
	j.watchNode(ctx)
	pods, err := Start(Options{Client: j.client, Node: j.node, ReportInterval: lookInterval, Logf: j.Logf, report: j.report})
	if err != nil {
		return err
	}
	defer pods.Stop()
	wait.UntilWithContext(ctx, func(ctx context.Context) { _ = j.retry(ctx, "renewing the lease", j.renew) }, renewInterval)
	return nil
}

// retry does something until it succeeds or ctx ends.
func (j *joined) retry(ctx context.Context, what string, do func(context.Context) error) error {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 7*time.Second) {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		j.Logf("%s: %v", what, err)
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// osLabels are those that a kubelet sets itself, and keeps right when it starts.
func (j *joined) osLabels() map[string]string {
	parts := strings.Split(j.OSVersion, ".")
	return map[string]string{
		corev1.LabelHostname:     j.node,
		corev1.LabelOSStable:     "windows",
		corev1.LabelArchStable:   "amd64",
		corev1.LabelWindowsBuild: strings.Join(parts[:min(3, len(parts))], "."),
	}
}

// register makes the Node, or takes the one that is there.
func (j *joined) register(ctx context.Context) error {
	labels := maps.Clone(j.nodeLabels)
	maps.Copy(labels, j.osLabels())
	taints := j.settings.RegisterWithTaints
	if j.cloudProvider == "external" {
		taints = append(slices.Clip(taints), corev1.Taint{
			Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule,
		})
	}
	nodes := j.client.CoreV1().Nodes()
	_, err := nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: j.node, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status:     corev1.NodeStatus{NodeInfo: j.info()},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var patch []byte
		patch, err = mergePatch(&corev1.Node{}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: j.osLabels()}})
		if err == nil {
			_, err = nodes.Patch(ctx, j.node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		}
	}
	return err
}

// networkReady says whether pods would get a network. An empty reason says that they would.
func (j *joined) networkReady() (reason string) {
	if _, err := os.Stat(j.local(`C:\k\hybrid-overlay-node.exe`)); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	entries, err := os.ReadDir(j.local(`C:\k\cni\config`))
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".conf") {
			return ""
		}
	}
	if err != nil {
		return err.Error()
	}
	return "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"
}

// version is that of the program, which says it in its first line, or else a usual one.
func (j *joined) version() string {
	text, _ := j.read(j.program) // it runs, so it is there
	first, _, _ := strings.Cut(string(text), "\n")
	if version, found := strings.CutPrefix(strings.TrimSpace(first), "kubelet "); found {
		return version
	}
	return defaultVersion
}

// report writes the status of the Node when it has changed or is getting old.
func (j *joined) report(ctx context.Context) bool {
	now := time.Now()
	reason := j.networkReady()
	ready := reason == ""
	switch {
	case j.reported.IsZero() || ready != j.ready:
		j.since = now
	case now.Sub(j.compared) < compareInterval:
		return true
	case now.Sub(j.reported) < statusInterval && j.said():
		j.compared = now
		return true
	}
	patch, err := mergePatch(&corev1.Node{}, &corev1.Node{Status: j.status(now, reason)})
	if err == nil {
		_, err = j.client.CoreV1().Nodes().PatchStatus(ctx, j.node, patch)
	}
	if err != nil {
		if ctx.Err() == nil {
			j.Logf("reporting the status: %v", err)
		}
		return false
	}
	if j.reported.IsZero() || ready != j.ready {
		j.Logf("the node is ready: %t", ready)
	}
	j.reported, j.compared, j.ready = now, now, ready
	return true
}

// watchNode watches the Node until ctx ends, as a kubelet does.
func (j *joined) watchNode(ctx context.Context) {
	factory := informers.NewSharedInformerFactoryWithOptions(j.client, 0, informers.WithTweakListOptions(func(list *metav1.ListOptions) {
		list.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, j.node).String()
	}))
	j.nodes = factory.Core().V1().Nodes().Lister()
	factory.StartWithContext(ctx)
}

// said says whether the Node still says of itself what was reported. kube-controller-manager changes that when it takes a kubelet for dead.
func (j *joined) said() bool {
	node, err := j.nodes.Get(j.node)
	if err != nil {
		j.Logf("%v", err) // it was deleted, or is not known yet
		return true
	}
	want := corev1.ConditionFalse
	if j.ready {
		want = corev1.ConditionTrue
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == want
	})
}

func (j *joined) status(now time.Time, notReady string) corev1.NodeStatus {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(j.since),
		}
	}
	ready := condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	if notReady != "" {
		ready = condition(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", notReady)
	}
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: *resource.NewQuantity(int64(j.settings.MaxPods), resource.DecimalSI),
	}
	return corev1.NodeStatus{
		Capacity: resources, Allocatable: resources,
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
			condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
			ready,
		},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: j.address.String()}, {Type: corev1.NodeHostName, Address: j.node},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		NodeInfo:        j.info(),
	}
}

// info is what the Node says about its host, from its registration on.
func (j *joined) info() corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{
		MachineID: j.Hostname, BootID: j.BootID, KernelVersion: j.OSVersion, OSImage: "Windows Server 2022 Datacenter",
		ContainerRuntimeVersion: "containerd://2.2.1", KubeletVersion: j.version(), OperatingSystem: "windows", Architecture: "amd64",
	}
}

// renew says in the Lease of the Node that it is alive. The Lease is read only if it is not as it was left, see
// k8s.io/component-helpers/apimachinery/lease.
func (j *joined) renew(ctx context.Context) (err error) {
	leases := j.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if lease := j.lease; lease != nil {
		lease.Spec.RenewTime = new(metav1.NowMicro())
		if j.lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
			return nil
		}
		j.lease = nil
	}
	node, err := j.client.CoreV1().Nodes().Get(ctx, j.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // somebody has removed it; a kubelet makes it again when it is restarted
	}
	if err != nil {
		return err
	}
	lease, err := leases.Get(ctx, j.node, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	if missing {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: j.node, Namespace: corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		}}
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &j.node, new(int32(leaseSeconds))
	lease.Spec.RenewTime = new(metav1.NowMicro())
	if missing {
		lease, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err == nil {
		j.lease = lease
	}
	return err
}
