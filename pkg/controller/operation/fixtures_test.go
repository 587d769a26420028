// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/rollout"
	"github.com/openshift/windows-instance-api/pkg/drain"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

const (
	testNamespace = "windows-hosts"
	testNode      = "win-1"
	testRevision  = "0123456789abcdef"
	// testDeadline ends a test that waits for something that does not happen.
	testDeadline = 3 * time.Hour
)

var (
	testKey     = types.NamespacedName{Namespace: testNamespace, Name: "win-1"}
	testNodeKey = types.NamespacedName{Name: testNode}
)

// testScheme has what the client of the controller reads and writes.
var testScheme = func() *kruntime.Scheme {
	scheme := kruntime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}()

// newTracker does not care about managed fields: with them, each write costs milliseconds.
func newTracker() clienttesting.ObjectTracker {
	return clienttesting.NewObjectTracker(testScheme, serializer.NewCodecFactory(testScheme).UniversalDecoder())
}

// inBubble runs a subtest in which time goes by as soon as everybody waits for it.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

// scriptedHost is a [Hosts] with one host, which restarts when it is asked to.
type scriptedHost struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// boots is how often the host was started.
	boots int
	// started is when it was last.
	started time.Time
	// down is how many questions it does not answer after a restart.
	down int
	// lingers is how many questions for its boot it still answers as before the restart.
	lingers int
	// dead hosts do not come back.
	dead bool
	// fail is what questions give, by name, as long as the function returns an error.
	fail map[string]func() error
	// loseAnswer loses the answer to the request to restart, this many times, with lostAnswer: nil
	// is errLost.
	loseAnswer int
	lostAnswer error
	pending    bool
	services   []api.Service
	// ssh is what decides whether its service sshd starts. Nil: it does not say.
	ssh *api.SSHServer
	// waiting are services that wait for networks of others.
	waiting  []api.Waiting
	sessions []api.Session
	// servicesFail is why the services of the host cannot be restarted, or adopted. Empty: they can.
	servicesFail string
	// refuses is why the host cannot be released, which it finds out before it changes anything. Empty: it can.
	refuses string
	// factErrors are what the host cannot read of itself.
	factErrors []api.FactError
	// memory is what the host has. 0: enough.
	memory  uint64
	routes  []api.Route
	updates scriptedUpdates
	asked   []string
	// forgotten has how many questions there were whenever connections were forgotten.
	forgotten []int
	// adopted is with what the host was adopted. Nil: it was not.
	adopted *api.Adoption
	// released says that the host was given up, and left is what it says of itself then.
	released bool
	left     *api.Left
	// key is the one that WMCO has. Unless it is nil, peer is who the host logs in, which refuses the bare key then.
	key  host.Key
	peer *host.Peer
	// names are the addresses that names stand for.
	names map[string]string
	// elsewhere is who answers the bare key at other addresses than that of the instance. Nil, and those that are not there: the port is closed.
	elsewhere map[string]func() (*host.Peer, error)
	// keeps is which programs the last Apply was to keep.
	keeps      []string
	forced     bool
	unanswered int

	// replacedBy is the digest of the agent that somebody has put in the place of ours. Empty: nobody has.
	replacedBy string

	configured
}

var (
	_ Hosts = (*scriptedHost)(nil)

	// errNotAsked is what connections say to a caller that has gone before it asked.
	errNotAsked    = &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonCanceled}
	errRefusedPort = &ssh.Error{Layer: ssh.LayerConnect, Reason: ssh.ReasonConnectionRefused}
	errLost        = &ssh.Error{Layer: ssh.LayerSession, Reason: ssh.ReasonConnectionLost}
	errNoLogin     = &ssh.Error{Layer: ssh.LayerAuth, Reason: ssh.ReasonCredentialsRefused}
)

// afterRestart are the questions after the one that asks for a restart, each with whether a connection was made for it.
func (h *scriptedHost) afterRestart() (asked []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := slices.Index(h.asked, "Restart") + 1; n < len(h.asked); n++ {
		connection := "same"
		if slices.Contains(h.forgotten, n) {
			connection = "new"
		}
		asked = append(asked, h.asked[n]+" "+connection)
	}
	return asked
}

// ask notes a question. Callers hold mu.
func (h *scriptedHost) ask(ctx context.Context, question string) error {
	h.asked = append(h.asked, question)
	if errors.Is(ctx.Err(), context.Canceled) {
		return errNotAsked
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if f := h.fail[question]; f != nil {
		if err := f(); err != nil {
			return err
		}
	}
	if h.unanswered > 0 {
		h.unanswered--
		return errRefusedPort
	}
	if h.dead && h.boots > 1 {
		return errRefusedPort
	}
	return nil
}

func (h *scriptedHost) id() string { return fmt.Sprintf("boot-%d", h.boots) }

func (h *scriptedHost) Login(ctx context.Context, _ *v1alpha1.WindowsInstance) (host.Peer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return *cmp.Or(h.peer, &host.Peer{}), h.ask(ctx, "Login")
}

func (h *scriptedHost) LoginBare(ctx context.Context, i *v1alpha1.WindowsInstance, secret types.NamespacedName) (*host.Peer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i.Spec.Address != "10.0.0.1" {
		h.asked = append(h.asked, "LoginBare at "+i.Spec.Address)
		if answer := h.elsewhere[i.Spec.Address]; answer != nil {
			return answer()
		}
		return nil, errRefusedPort
	}
	if err := h.ask(ctx, "LoginBare"); err != nil || h.peer != nil || secret != keySecret {
		return nil, err
	}
	return &host.Peer{Accepted: h.key.Fingerprint(), Key: h.key}, nil
}

func (h *scriptedHost) Resolve(ctx context.Context, i *v1alpha1.WindowsInstance) ([]netip.Addr, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "Resolve"); err != nil {
		return nil, err
	}
	address, err := netip.ParseAddr(h.names[i.Spec.Address])
	if err != nil {
		return nil, errRefusedPort
	}
	return []netip.Addr{address}, nil
}

func (h *scriptedHost) EncryptUsername(ctx context.Context, secret types.NamespacedName, user string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return user + " for " + secret.Name, h.ask(ctx, "EncryptUsername")
}

func (h *scriptedHost) BareKey(ctx context.Context, secret types.NamespacedName) (host.Key, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if secret != keySecret {
		return host.Key{}, fmt.Errorf("secret %s was read", secret)
	}
	return h.key, h.ask(ctx, "BareKey")
}

func (h *scriptedHost) Release(ctx context.Context, _ *v1alpha1.WindowsInstance, request api.ReleaseRequest, report func(api.Event)) (*api.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "Release"); err != nil {
		return nil, err
	}
	if h.refuses != "" {
		return &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonInventory, Error: h.refuses}, nil
	}
	report(api.Event{Item: "Service " + api.ServiceName})
	if h.servicesFail != "" {
		return &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonStep, Error: h.servicesFail}, nil
	}
	if h.released || request.Imported == "" {
		return &api.Result{Outcome: api.OutcomeUnchanged, Left: &api.Left{}}, nil
	}
	h.recorded, h.released = "", true
	return &api.Result{Outcome: api.OutcomeReleased, Left: h.left, Changed: []api.Item{
		{Kind: api.KindService, Name: "kube-proxy", Action: api.ActionUpdate}, {Kind: api.KindService, Name: api.ServiceName, Action: api.ActionDelete},
	}}, nil
}

func (h *scriptedHost) AgentDigest(ctx context.Context, _ *v1alpha1.WindowsInstance) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.ask(ctx, "AgentDigest")
	return cmp.Or(h.replacedBy, testRevision+"0000"), err
}

func (h *scriptedHost) Facts(ctx context.Context, _ *v1alpha1.WindowsInstance) (*api.Facts, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "Facts"); err != nil {
		return nil, err
	}
	return &api.Facts{
		Time:          api.TimeFacts{Now: h.clock.Now()},
		System:        api.SystemFacts{OS: "windows", Architecture: "amd64"},
		User:          api.UserFacts{Administrator: true, Elevated: true},
		Name:          api.NameFacts{Hostname: testNode},
		Memory:        api.MemoryFacts{TotalBytes: h.memory},
		Boot:          api.BootFacts{ID: h.id(), Time: h.started},
		PendingReboot: api.PendingReboot{Pending: h.pending, Reasons: []string{"WindowsUpdate"}},
		Services:      slices.Clone(h.services),
		Sessions:      h.sessions,
		OpenSSH:       api.OpenSSHFacts{Server: h.ssh},
		Configuration: api.ConfigurationFacts{AppliedRevision: h.recorded, KubeletCertificate: h.certificate, Waiting: h.waiting},
		Errors:        h.factErrors,
	}, nil
}

func (h *scriptedHost) BootID(ctx context.Context, _ *v1alpha1.WindowsInstance) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "BootID"); err != nil {
		return "", err
	}
	if h.boots > 1 && h.lingers > 0 {
		h.lingers--
		return fmt.Sprintf("boot-%d", h.boots-1), nil
	}
	return h.id(), nil
}

func (h *scriptedHost) Restart(ctx context.Context, _ *v1alpha1.WindowsInstance, request api.RestartRequest) (api.RestartAnswer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "Restart"); err != nil {
		return api.RestartAnswer{}, err
	}
	h.agentThere = true
	if request.BootID == "" || request.Reason == "" {
		return api.RestartAnswer{}, errors.New("the request is not complete")
	}
	restarted := request.BootID != h.id()
	if !restarted {
		h.boots++
		h.started = h.clock.Now()
		h.unanswered = h.down
		h.forced = request.Force
	}
	if h.loseAnswer > 0 {
		h.loseAnswer--
		return api.RestartAnswer{}, cmp.Or[error](h.lostAnswer, errLost)
	}
	return api.RestartAnswer{BootID: request.BootID, Restarted: restarted}, nil
}

func (h *scriptedHost) Reach(ctx context.Context, _ *v1alpha1.WindowsInstance, _ api.ReachRequest) (api.ReachAnswer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "Reach"); err != nil {
		return api.ReachAnswer{}, err
	}
	return h.reached, nil
}

func (h *scriptedHost) EnsureRoutes(ctx context.Context, _ *v1alpha1.WindowsInstance, routes []api.Route) ([]api.Route, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "EnsureRoutes"); err != nil {
		return nil, err
	}
	h.routes = routes
	return routes, nil
}

func (h *scriptedHost) Adopt(ctx context.Context, _ *v1alpha1.WindowsInstance, request *api.AdoptRequest, report func(api.Event)) (*api.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "Adopt"); err != nil {
		return nil, err
	}
	report(api.Event{Item: "Service " + request.Adoption.Manager})
	if h.servicesFail != "" {
		return &api.Result{Outcome: api.OutcomeFailed, Reason: api.ReasonConflict, Error: h.servicesFail}, nil
	}
	if h.recorded == request.Adoption.Revision {
		return &api.Result{Outcome: api.OutcomeUnchanged}, nil
	}
	h.recorded, h.adopted = request.Adoption.Revision, &request.Adoption
	return &api.Result{Outcome: api.OutcomeApplied, Changed: []api.Item{{Kind: api.KindService, Name: request.Adoption.Manager, Action: api.ActionDelete}}}, nil
}

func (h *scriptedHost) PlanAdoption(ctx context.Context, instance *v1alpha1.WindowsInstance, request *api.AdoptRequest) (*api.Plan, error) {
	p, err := h.PlanConfiguration(ctx, instance, &request.Bundle)
	if err == nil {
		p.Items = append(p.Items, h.takes...)
	}
	return p, err
}

func (h *scriptedHost) RestartServices(ctx context.Context, _ *v1alpha1.WindowsInstance, report func(api.Event)) (*api.Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.ask(ctx, "RestartServices"); err != nil {
		return nil, err
	}
	report(api.Event{Item: "Service kubelet"})
	if h.servicesFail != "" {
		return &api.Result{Outcome: api.OutcomeFailed, Error: h.servicesFail}, nil
	}
	return &api.Result{Outcome: api.OutcomeApplied, Changed: []api.Item{{Kind: api.KindService, Name: "containerd"}, {Kind: api.KindService, Name: "kubelet"}}}, nil
}

func (h *scriptedHost) Agent() (version, digest string) { return "v0.1.0", testRevision }

func (h *scriptedHost) Forget(*v1alpha1.WindowsInstance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgotten = append(h.forgotten, len(h.asked))
}

// restarts is how often the host was restarted.
func (h *scriptedHost) restarts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.boots - 1
}

func (h *scriptedHost) count(question string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, q := range h.asked {
		if q == question {
			n++
		}
	}
	return n
}

// scriptedDrain is a drain that reports what it is told and ends when it is told.
type scriptedDrain struct {
	mu      sync.Mutex
	reports []drain.Progress
	// block has the drain wait for the end of its context after the reports.
	block     bool
	meanwhile func() // called while pods leave
	err       error
	runs      int
	options   drain.Options
}

// ran is how often it was run.
func (d *scriptedDrain) ran() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runs
}

func (d *scriptedDrain) Run(ctx context.Context, _ string, o drain.Options, report func(drain.Progress)) error {
	d.mu.Lock()
	d.runs++
	d.options = o
	reports, block, err, meanwhile := d.reports, d.block, d.err, d.meanwhile
	d.mu.Unlock()
	if meanwhile != nil {
		meanwhile()
	}
	for _, p := range reports {
		report(p)
	}
	if block {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}

// fixture is a reconciler with a fake cluster and a scripted host.
type fixture struct {
	record.EventRecorder

	t *testing.T
	// client is that of the controller, raw that of everybody else.
	client client.Client
	raw    client.Client
	kube   *fake.Clientset
	// nodes has the Nodes of kube.
	nodes clienttesting.ObjectTracker
	// configuration is nil unless hosts are configured.
	configuration Configuration
	// policy is that of the process that was started last.
	policy *passes
	// concurrent is how many operations run at the same time. 0: 2.
	concurrent int
	// ready is [Options.Ready].
	ready func(ctx context.Context) error
	// superseded is what is said of an instance that is about to be removed.
	superseded string
	// notAdoptable is why no host is taken over from WMCO.
	notAdoptable error
	// machineAddress is that of the Machine, or machineUnread why it is not known.
	machineAddress string
	machineUnread  error
	// labels are those that the Node is to have. Nil: those that it has.
	labels func() map[string]string
	// represented is asked before a host is changed for the first time. Nil: nobody is.
	represented func(context.Context, *v1alpha1.WindowsInstance) (string, error)
	// settle is for how long Nodes have to stay ready.
	settle time.Duration
	// wakes: what an execution that has ended wakes is reconciled, as the manager does.
	wakes bool
	// silent kubelets do not renew the Leases of their Nodes.
	silent atomic.Bool
	host   *scriptedHost
	drain  *scriptedDrain
	clock  clock.RealClock

	mu     sync.Mutex
	events []string
	// told are the same by the kinds of their objects.
	told []string
	// onWrite is called before and after each write of a status; an error keeps it from happening.
	onWrite func(after bool, o *v1alpha1.WindowsInstance) error
	// onRead is called before each read of an instance by the controller; an error keeps it from happening.
	onRead func() error
}

// Event implements [record.EventRecorder].
func (f *fixture) Event(object kruntime.Object, eventType, reason, _ string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := "WindowsInstance"
	if other, is := object.(*corev1.ObjectReference); is {
		kind = other.Kind
	}
	f.told = append(f.told, kind+" "+reason)
	f.events = append(f.events, eventType+" "+reason)
}

// waitForEvent waits for an event, of a type and a reason. The last one of an operation
// comes after its end was recorded.
func (f *fixture) waitForEvent(want string) {
	f.t.Helper()
	f.eventually("the event "+want, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.Contains(f.events, want)
	})
}

type change func(*v1alpha1.WindowsInstance)

// newInstance is a host with a Node and an operation that was recorded.
func newInstance(op v1alpha1.Operation, changes ...change) *v1alpha1.WindowsInstance {
	op.ID, op.RequestedBy, op.Phase = "op-1", "alice", v1alpha1.OperationPending
	instance := &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: testKey.Name, UID: "uid"},
		Spec:       v1alpha1.WindowsInstanceSpec{Address: "10.0.0.1", Port: 22, Username: "Administrator"},
		Status: v1alpha1.WindowsInstanceStatus{
			Version: "v1", Node: &v1alpha1.NodeReference{Name: testNode, UID: "uid-of-node"}, Operation: &op,
		},
	}
	for _, c := range changes {
		c(instance)
	}
	return instance
}

func isPool(o client.Object) bool {
	_, ok := o.(*v1alpha1.WindowsNodePool)
	return ok
}

func newFixture(t *testing.T, instance *v1alpha1.WindowsInstance, others ...client.Object) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: clock.RealClock{}, drain: &scriptedDrain{}}
	f.host = &scriptedHost{clock: f.clock, boots: 1, started: f.clock.Now(), fail: map[string]func() error{}}
	node := readyNode("uid-of-node")
	f.kube, f.nodes = fake.NewClientset(), newTracker()
	f.kube.PrependReactor("*", "nodes", clienttesting.ObjectReaction(f.nodes))
	if err := f.nodes.Add(node.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	renewed := metav1.NewMicroTime(f.clock.Now())
	f.kube.PrependReactor("get", "leases", func(action clienttesting.Action) (bool, kruntime.Object, error) {
		if !f.silent.Load() {
			renewed = metav1.NewMicroTime(renewed.Add(time.Microsecond)) // whatever the clock of the host says
		}
		name := action.(clienttesting.GetAction).GetName() //nolint:forcetypeassert // see the verb
		return true, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}, nil
	})
	if ref := instance.Spec.PoolRef; ref != nil && ref.Name == "pool" && !slices.ContainsFunc(others, isPool) {
		others = append(others, &v1alpha1.WindowsNodePool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: ref.Name}}) // without, nothing is updated
	}
	raw := ctrlfake.NewClientBuilder().WithScheme(testScheme).WithObjectTracker(newTracker()).WithObjects(append(others, instance, node)...).
		WithStatusSubresource(&v1alpha1.WindowsInstance{}).Build()
	f.raw, f.client = raw, interceptor.NewClient(raw, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if node, ok := obj.(*corev1.Node); ok { // the cache follows the Nodes of kube
				found, err := f.nodes.Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", key.Name)
				if err == nil {
					found.(*corev1.Node).DeepCopyInto(node) //nolint:forcetypeassert // see the resource
				}
				return err //nolint:wrapcheck // it is that of a client
			}
			f.mu.Lock()
			hook := f.onRead
			f.mu.Unlock()
			if _, ok := obj.(*v1alpha1.WindowsInstance); ok && hook != nil {
				if err := hook(); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, obj, opts...) //nolint:wrapcheck // it is that of a client
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			written, _ := obj.(*v1alpha1.WindowsInstance)
			if written.ResourceVersion == "" {
				t.Error("a status was written without a resource version, so that it could overwrite another")
			}
			f.mu.Lock()
			hook := f.onWrite
			f.mu.Unlock()
			if hook != nil {
				if err := hook(false, written); err != nil {
					return err
				}
			}
			if err := c.SubResource(sub).Update(ctx, obj, opts...); err != nil {
				return err
			}
			if hook != nil {
				return hook(true, written)
			}
			return nil
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errors.New("a spec was written")
		},
	})
	return f
}

// passes is the real policy, which makes a pass when it is asked.
type passes struct {
	*rollout.Scheduler
	// contested has other pools wait.
	contested atomic.Bool
	// givesWayTo has something else be done first. Nil: nothing is.
	givesWayTo atomic.Pointer[string]
}

func (p *passes) WaitsFor(key types.NamespacedName) string {
	if _, err := p.Reconcile(context.Background(), reconcile.Request{}); err != nil {
		return "" // as it is tried again
	}
	return p.Scheduler.WaitsFor(key)
}

func (p *passes) GivesWayTo(key types.NamespacedName) string {
	if why := p.givesWayTo.Load(); why != nil {
		return *why
	}
	return p.Scheduler.GivesWayTo(key)
}

func (p *passes) Contested(key types.NamespacedName) bool {
	return p.contested.Load() || p.Scheduler.Contested(key)
}

// editNode changes the Node, also while the cluster is asked for something else.
func (f *fixture) editNode(change func(*corev1.Node)) {
	nodes := corev1.SchemeGroupVersion.WithResource("nodes")
	found, err := f.nodes.Get(nodes, "", testNode)
	if err != nil {
		f.t.Error(err)
		return
	}
	node := found.(*corev1.Node).DeepCopy() //nolint:forcetypeassert // see the resource
	change(node)
	if err := f.nodes.Update(nodes, node, ""); err != nil {
		f.t.Error(err)
	}
}

// readyNode is a Node whose kubelet reports from the future, so that it has always spoken
// since the restart.
func readyNode(uid types.UID) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: uid},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(time.Now().Add(1000 * time.Hour)),
		}}},
	}
}

// keepLabels has a Node keep its labels.
func keepLabels(_ context.Context, _ *v1alpha1.WindowsInstance, node *corev1.Node) (map[string]string, error) {
	return node.Labels, nil
}

func (f *fixture) nodeLabels(ctx context.Context, instance *v1alpha1.WindowsInstance, node *corev1.Node) (map[string]string, error) {
	if f.labels == nil {
		return keepLabels(ctx, instance, node)
	}
	return f.labels(), nil
}

// process starts the controller as a process does; stop ends it and waits until it has.
func (f *fixture) process() (r *Reconciler, stop func()) {
	f.t.Helper()
	if c, ok := f.configuration.(*scriptedConfiguration); ok {
		c.given.Clear()
	}
	f.policy = &passes{Scheduler: rollout.NewScheduler(f.client, rollout.Options{
		Disruptions: rollout.DefaultDisruptions, Recorder: f,
		Update: func(*v1alpha1.WindowsInstance, *v1alpha1.WindowsNodePool, time.Time) (time.Time, bool) {
			return time.Time{}, false
		},
	})}
	r = newReconciler(f.client, f.client, Options{
		Recorder: f, Hosts: f.host, Configuration: f.configuration, Policy: f.policy, Version: "v1.2.3",
		Ready: f.ready, Kube: f.kube, Concurrent: cmp.Or(f.concurrent, 2), Settle: f.settle,
		Superseded:     func(context.Context, *v1alpha1.WindowsInstance) (string, error) { return f.superseded, nil },
		Labels:         f.nodeLabels,
		Adoptable:      func(context.Context) error { return f.notAdoptable },
		MachineAddress: func(context.Context, types.NamespacedName) (string, error) { return f.machineAddress, f.machineUnread },
		Represented: func(ctx context.Context, instance *v1alpha1.WindowsInstance) (string, error) {
			if f.represented == nil {
				return "", nil
			}
			return f.represented(ctx, instance)
		},
	})
	r.drainer = f.drain
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.runner.Start(ctx); err != nil {
			f.t.Error(err)
		}
	})
	wg.Go(func() {
		for {
			select {
			case woken := <-r.wake:
				if f.wakes {
					if _, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(woken.Object)}); err != nil && ctx.Err() == nil {
						f.t.Error(err)
					}
				}
			case <-ctx.Done():
				return
			}
		}
	})
	stop = func() {
		cancel()
		wg.Wait()
	}
	f.t.Cleanup(stop)
	return r, stop
}

func (f *fixture) reconcile(r *Reconciler) {
	f.t.Helper()
	if _, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: testKey}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) get() *v1alpha1.WindowsInstance {
	f.t.Helper()
	instance := &v1alpha1.WindowsInstance{}
	if err := f.raw.Get(context.Background(), testKey, instance); err != nil {
		f.t.Fatal(err)
	}
	return instance
}

func (f *fixture) node() *corev1.Node {
	f.t.Helper()
	node, err := f.kube.CoreV1().Nodes().Get(context.Background(), testNode, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return node
}

// edit changes the stored status as somebody else does.
func (f *fixture) edit(change func(*v1alpha1.WindowsInstance)) {
	f.t.Helper()
	for {
		instance := f.get()
		change(instance)
		err := f.raw.Status().Update(context.Background(), instance)
		if err == nil {
			return
		}
	}
}

// finish runs a process until the operation has ended.
func (f *fixture) finish() *v1alpha1.Operation {
	f.t.Helper()
	r, stop := f.process()
	defer stop()
	f.reconcile(r)
	return f.waitForEnd()
}

func (f *fixture) waitForEnd() *v1alpha1.Operation {
	f.t.Helper()
	f.eventually("the operation to end", func() bool { return !f.get().Status.Operation.Active() })
	op := f.get().Status.Operation
	if of := op.PoolRevision; of != "" && of != poolRevisionOf(op.Revision) {
		f.t.Errorf("it has recorded that revision %q is of %q", op.Revision, of)
	}
	return op
}

func (f *fixture) eventually(what string, holds func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(testDeadline); !holds(); {
		if time.Now().After(deadline) {
			f.t.Fatalf("waited for %s; the operation is %+v", what, f.get().Status.Operation)
		}
		select {
		case <-time.After(time.Second):
		case <-f.t.Context().Done():
		}
	}
}

// states writes the steps of an operation as name=state.
func states(op *v1alpha1.Operation) []string {
	var out []string
	for _, step := range op.Steps {
		out = append(out, step.Name+"="+string(step.State))
	}
	return out
}

func rebootOperation(mode v1alpha1.RebootMode) v1alpha1.Operation {
	return v1alpha1.Operation{Type: v1alpha1.OperationReboot, Reboot: &v1alpha1.RebootOptions{Mode: mode}}
}

// byController is an operation that the controller has recorded on its own.
func byController(op v1alpha1.Operation) v1alpha1.Operation {
	op.Origin = v1alpha1.OriginController
	return op
}

func drainOperation() v1alpha1.Operation {
	return v1alpha1.Operation{Type: v1alpha1.OperationDrain, Drain: &v1alpha1.DrainOptions{}}
}
