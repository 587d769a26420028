// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/stream"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
	"github.com/openshift/windows-instance-api/pkg/stream/relief"
)

const namespaceController = "system:serviceaccount:kube-system:namespace-controller"

// memory keeps instances as etcd does, as far as a store needs it here.
type memory struct {
	storage.Interface // nil: nothing else is expected to be called

	objects map[string]*windows.WindowsInstance
	version int
	writes  int
	// refuse is what updates end with.
	refuse error
	// vanish is what somebody else deletes once it was listed.
	vanish string
	// away is what reading ends with.
	away error
}

func (*memory) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (*memory) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

func (m *memory) write(key string, obj, out runtime.Object) {
	m.version++
	m.writes++
	instance := obj.DeepCopyObject().(*windows.WindowsInstance) //nolint:forcetypeassert // nothing else is kept here
	instance.ResourceVersion = strconv.Itoa(m.version)
	m.objects[key] = instance
	assign(out, instance)
}

func assign(out runtime.Object, instance *windows.WindowsInstance) {
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(instance.DeepCopy()).Elem())
}

func (m *memory) Create(_ context.Context, key string, obj, out runtime.Object, _ uint64) error {
	if m.objects[key] != nil {
		return storage.NewKeyExistsError(key, 0)
	}
	m.write(key, obj, out)
	return nil
}

func (m *memory) Get(_ context.Context, key string, o storage.GetOptions, out runtime.Object) error {
	if m.away != nil {
		return m.away
	}
	instance := m.objects[key]
	if instance == nil {
		if o.IgnoreNotFound {
			return nil
		}
		return storage.NewKeyNotFoundError(key, 0)
	}
	assign(out, instance)
	return nil
}

func (m *memory) GetList(_ context.Context, key string, o storage.ListOptions, out runtime.Object) error {
	list := out.(*windows.WindowsInstanceList) //nolint:forcetypeassert // nothing else is kept here
	for at, instance := range m.objects {
		if matches, err := o.Predicate.Matches(instance); err != nil {
			return err
		} else if matches && strings.HasPrefix(at, key) {
			list.Items = append(list.Items, *instance.DeepCopy())
		}
	}
	delete(m.objects, m.vanish)
	return nil
}

func (m *memory) GuaranteedUpdate(_ context.Context, key string, out runtime.Object, ignoreNotFound bool, p *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object) error {
	if m.refuse != nil {
		return m.refuse
	}
	current := m.objects[key]
	if current == nil {
		if !ignoreNotFound {
			return storage.NewKeyNotFoundError(key, 0)
		}
		current = &windows.WindowsInstance{}
	}
	if err := p.Check(key, current); err != nil {
		return err
	}
	version, _ := strconv.ParseUint(current.ResourceVersion, 10, 64)
	changed, _, err := update(current.DeepCopy(), storage.ResponseMeta{ResourceVersion: version})
	if err != nil {
		return err
	}
	m.write(key, changed, out)
	return nil
}

func (m *memory) Delete(ctx context.Context, key string, out runtime.Object, p *storage.Preconditions, validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) error {
	current := m.objects[key]
	if current == nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	if err := errors.Join(p.Check(key, current), validate(ctx, current)); err != nil {
		return err
	}
	m.writes++
	delete(m.objects, key)
	assign(out, current)
	return nil
}

// hosts is a way to hosts that notes what is wanted there.
type hosts struct {
	Hosts // nil: nothing else is expected to be called

	planned *v1alpha1.WindowsInstance
	// refuses is why no host may be taken over. Nil: each may.
	refuses error
	// command is what runs on a host; nil: the host is off.
	command *command

	mu      sync.Mutex // guards what follows
	opened  []string
	options []stream.ExecOptions
	started []SessionInfo
	ended   []SessionEnd
	// notRecorded is how often a session was said not to be recorded.
	notRecorded int
}

func (h *hosts) Plan(_ context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error) {
	h.planned = instance
	return []v1alpha1.PlannedChange{{}}, nil
}

func (h *hosts) Adoptable(context.Context, *v1alpha1.WindowsInstance) error { return h.refuses }

func (h *hosts) PlanAdoption(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error) {
	return h.Plan(ctx, instance)
}

func (h *hosts) Releasable(context.Context, *v1alpha1.WindowsInstance) error { return h.refuses }

func (h *hosts) PlanRelease(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]v1alpha1.PlannedChange, error) {
	return h.Plan(ctx, instance)
}

// fixture is the storage with what it keeps, asks and reaches.
type fixture struct {
	*Storage
	memory  *memory
	asked   *recordingAuthorizer
	hosts   *hosts
	streams *limits.Streams
	tracked atomic.Int64
}

// counting counts the streams that a server that is short of memory may end.
func counting(n *atomic.Int64) tracker {
	memory := relief.New()
	return func(namespace, user string) (*relief.Stream, func()) {
		stream, untrack := memory.Track(namespace, user)
		n.Add(1)
		return stream, func() { n.Add(-1); untrack() }
	}
}

func newStorage(t *testing.T, deleters base.Deleters, instances ...*windows.WindowsInstance) *fixture {
	t.Helper()
	return newStorageWith(t, deleters, limits.New(nil), instances...)
}

func newStorageWith(t *testing.T, deleters base.Deleters, streams *limits.Streams, instances ...*windows.WindowsInstance) *fixture {
	t.Helper()
	s := &fixture{memory: &memory{objects: map[string]*windows.WindowsInstance{}, version: 40}, asked: &recordingAuthorizer{}, hosts: &hosts{}, streams: streams}
	for _, instance := range instances {
		s.memory.write("/windowsinstances/"+instance.Namespace+"/"+instance.Name, instance, &windows.WindowsInstance{})
	}
	s.memory.writes = 0
	scheme := newScheme()
	config := &storagebackend.Config{Codec: serializer.NewCodecFactory(scheme).LegacyCodec(v1alpha1.SchemeGroupVersion)}
	var err error
	s.Storage, err = NewStorage(Options{
		Scheme: scheme, Authorizer: s.asked, Pools: fewPools{}, Deleters: deleters, Hosts: s.hosts, Streams: s.streams, Memory: relief.New(), SessionEvents: s.hosts, PortForwardPorts: []int{3389, hangingPort}, Recording: RecordingOptions{Directory: t.TempDir()},
		RESTOptionsGetter: generic.RESTOptions{
			ResourcePrefix: "windowsinstances", DeleteCollectionWorkers: 1, StorageConfig: config.ForResource(windows.Resource("windowsinstances")),
			Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
				storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
				return s.memory, func() {}, nil
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Exec.track, s.PortForward.track = counting(&s.tracked), counting(&s.tracked)
	return s
}

// stored is the instance as it is kept, nil if it is not.
func (s *fixture) stored(name string) *windows.WindowsInstance {
	return s.memory.objects["/windowsinstances/default/"+name]
}

// rights are those that were asked for besides the verb of the request.
func (s *fixture) rights() []string {
	var out []string
	for _, a := range s.asked.asked {
		out = append(out, a.GetVerb()+" "+a.GetResource()+"/"+a.GetName())
	}
	return out
}

func requestAs(name, subresource string) context.Context {
	return genericapirequest.WithUser(requestContext(subresource), &user.DefaultInfo{Name: name})
}

func newInstance(edit ...func(*windows.WindowsInstance)) *windows.WindowsInstance {
	instance := validInstance()
	instance.ResourceVersion, instance.Generation = "", 1
	for _, e := range edit {
		e(instance)
	}
	return instance
}

// loggedIn: the controller knows the host.
func loggedIn(i *windows.WindowsInstance)   { i.Status.MachineID = "firmware/windows" }
func heldByHost(i *windows.WindowsInstance) { i.Finalizers = []string{v1alpha1.HostFinalizer} }
func abandoned(i *windows.WindowsInstance) {
	i.Spec.Removal = &windows.RemovalOptions{Policy: windows.RemovalAbandon}
}

func info(change func(*windows.WindowsInstance)) rest.UpdatedObjectInfo {
	return rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		instance := old.DeepCopyObject().(*windows.WindowsInstance) //nolint:forcetypeassert // nothing else is updated
		change(instance)
		return instance, nil
	})
}

// Whoever creates, applies or updates an instance is asked for each right that it takes, and without it nothing is written.
func TestStorageAsksForRights(t *testing.T) {
	credentials, abandon, trust := "use windowscredentials/cluster", "abandon windowshosts/win-1", "trust windowshostkeys/win-1"
	created := func(i *windows.WindowsInstance) { *i = *newInstance(); i.UID = "" }
	rekeyed := func(i *windows.WindowsInstance) { i.Spec.HostKeys = []string{testHostKey} }
	both := func(a, b func(*windows.WindowsInstance)) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) { a(i); b(i) }
	}
	tests := []struct {
		name   string
		verb   string // create, apply or update
		before *windows.WindowsInstance
		change func(*windows.WindowsInstance)
		want   []string
	}{
		{"create", "create", nil, created, []string{credentials}},
		{"create in a pool", "create", nil, both(created, func(i *windows.WindowsInstance) { i.Spec.PoolRef = &windows.PoolReference{Name: "with"} }), []string{"get secrets/of-pool"}},
		{"create an abandoned one", "create", nil, both(created, abandoned), []string{credentials, abandon}},
		{"apply a new one", "apply", nil, created, []string{credentials}},
		{"apply a new abandoned one", "apply", nil, both(created, abandoned), []string{credentials, abandon}},
		{"apply an abandoned one", "apply", newInstance(), abandoned, []string{abandon}},
		{"update nothing", "update", newInstance(), func(i *windows.WindowsInstance) { i.Spec.Paused = true }, nil},
		{"abandon", "update", newInstance(), abandoned, []string{abandon}},
		{"let go", "update", newInstance(heldByHost), func(i *windows.WindowsInstance) { i.Finalizers = nil }, []string{abandon}},
		{"another address", "update", newInstance(), func(i *windows.WindowsInstance) { i.Spec.Address = "10.0.0.2" }, []string{credentials}},
		{"other keys", "update", newInstance(), rekeyed, []string{trust}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, decision := range []authorizer.Decision{authorizer.DecisionAllow, authorizer.DecisionDeny} {
				var before []*windows.WindowsInstance
				if tt.before != nil {
					before = append(before, tt.before)
				}
				s := newStorage(t, base.Deleters{}, before...)
				s.asked.decision = decision
				var err error
				if tt.verb == "create" {
					instance := &windows.WindowsInstance{}
					tt.change(instance)
					_, err = s.Instance.Create(requestAs("jane", ""), instance, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
				} else {
					_, _, err = s.Instance.Update(requestAs("jane", ""), "win-1", info(tt.change), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, tt.verb == "apply", &metav1.UpdateOptions{})
				}
				allowed := decision == authorizer.DecisionAllow || tt.want == nil
				if allowed != (err == nil) || !allowed && !apierrors.IsForbidden(err) || (s.memory.writes > 0) != allowed {
					t.Errorf("decision %v: got %v after %d writes", decision, err, s.memory.writes)
				}
				want := tt.want
				if !allowed {
					want = want[:1]
				}
				if diff := cmp.Diff(want, s.rights()); diff != "" {
					t.Errorf("decision %v: asked for (-want +got)\n%s", decision, diff)
				}
			}
		})
	}
}

// An update without the version that was read is refused: it would undo what others wrote meanwhile.
func TestStorageUpdatesWhatWasRead(t *testing.T) {
	s := newStorage(t, base.Deleters{}, newInstance())
	stale := func(i *windows.WindowsInstance) { i.ResourceVersion, i.Spec.Paused = "3", true }
	if _, _, err := s.Instance.Update(requestAs("jane", ""), "win-1", info(stale), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if _, _, err := s.Instance.Update(requestAs("jane", ""), "win-2", info(abandoned), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	if s.memory.writes > 0 {
		t.Errorf("%d writes", s.memory.writes)
	}
}

// An instance that its source still has is not deleted, one by one or all at once.
func TestStorageDeletes(t *testing.T) {
	requested := func(i *windows.WindowsInstance) {
		i.Annotations = map[string]string{v1alpha1.SourceAnnotation: "ConfigMap windows-instances"}
	}
	for _, tt := range []struct {
		name string
		user string
		edit func(*windows.WindowsInstance)
		want bool
	}{{"nobody's", "jane", func(*windows.WindowsInstance) {}, true}, {"requested", "jane", requested, false}, {"requested, by the controller", controllerUser, requested, true}} {
		t.Run(tt.name, func(t *testing.T) {
			deleters := base.Deleters{Controllers: []string{controllerUser}}
			s := newStorage(t, deleters, newInstance(tt.edit))
			_, _, err := s.Instance.Delete(requestAs(tt.user, ""), "win-1", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
			if (err == nil) != tt.want || !tt.want && !apierrors.IsConflict(err) || (s.stored("win-1") == nil) != tt.want {
				t.Errorf("got %v", err)
			}
			s = newStorage(t, deleters, newInstance(tt.edit))
			_, err = s.Instance.DeleteCollection(requestAs(tt.user, ""), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}, &metainternalversion.ListOptions{})
			if (err == nil) != tt.want || (s.stored("win-1") == nil) != tt.want {
				t.Errorf("all at once: got %v", err)
			}
		})
	}
}

// The deletion of a namespace does not wait for hosts, but for the operation that runs on one, for a while.
func TestNamespaceDeletionLeavesHosts(t *testing.T) {
	since := time.Now().Add(-time.Minute)
	working := func(i *windows.WindowsInstance) {
		i.Status.Operation = operation("op", windows.OperationRunning)
		i.Status.Operation.StartedAt = new(metav1.NewTime(since))
	}
	finished := func(i *windows.WindowsInstance) {
		working(i)
		i.Status.Operation.FinishedAt = new(metav1.NewTime(since))
	}
	pendingOne := func(i *windows.WindowsInstance) { i.Status.Operation = operation("op", "Pending") }
	invalid := func(i *windows.WindowsInstance) { i.Spec.Address = "" }
	tests := []struct {
		name  string
		user  string
		since time.Time
		edit  func(*windows.WindowsInstance)
		dry   bool
		want  bool // released, and so gone
	}{
		{"idle", namespaceController, since, func(*windows.WindowsInstance) {}, false, true},
		{"an object of an older release, which is not valid any more", namespaceController, since, invalid, false, true},
		{"by a person", "jane", since, func(*windows.WindowsInstance) {}, false, false},
		{"of a namespace that stays", namespaceController, time.Time{}, func(*windows.WindowsInstance) {}, false, false},
		{"by our controller, of a namespace that is gone", controllerUser, time.Unix(0, 0), working, false, true},
		{"by our controller, of a namespace that stays", controllerUser, time.Time{}, func(*windows.WindowsInstance) {}, false, false},
		{"tried only", namespaceController, since, func(*windows.WindowsInstance) {}, true, false},
		{"while an operation runs", namespaceController, since, working, false, false},
		{"while an operation runs for long", namespaceController, since.Add(-operationGrace), working, false, true},
		{"while an operation waits", namespaceController, since, pendingOne, false, true},
		{"after an operation", namespaceController, since, finished, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			deleters := base.Deleters{Controllers: []string{controllerUser}, NamespaceDeleted: func(_ context.Context, namespace string) (time.Time, error) {
				if namespace != "default" {
					t.Errorf("asked for namespace %q", namespace)
				}
				return tt.since, nil
			}}
			other := newInstance(heldByHost, func(i *windows.WindowsInstance) {
				i.Name, i.Finalizers = "win-2", []string{v1alpha1.HostFinalizer, "example.com/f"}
			})
			s := newStorage(t, deleters, newInstance(heldByHost, tt.edit), other)
			options := &metav1.DeleteOptions{}
			if tt.dry {
				options.DryRun = []string{metav1.DryRunAll}
			}
			if _, _, err := s.Instance.Delete(requestAs(tt.user, ""), "win-1", rest.ValidateAllObjectFunc, options); err != nil {
				t.Fatal(err)
			}
			if gone := s.stored("win-1") == nil; gone != tt.want {
				t.Errorf("released: %v, want %v", gone, tt.want)
			}
			if got := s.stored("win-2"); !slices.Contains(got.Finalizers, v1alpha1.HostFinalizer) {
				t.Error("another host was released")
			}
			if _, err := s.Instance.DeleteCollection(requestAs(tt.user, ""), rest.ValidateAllObjectFunc, options, &metainternalversion.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			released := tt.user != "jane" && !tt.since.IsZero() && !tt.dry
			if got := s.stored("win-2"); slices.Contains(got.Finalizers, v1alpha1.HostFinalizer) == released || !slices.Contains(got.Finalizers, "example.com/f") {
				t.Errorf("with all others: the finalizers are %q", got.Finalizers)
			}
		})
	}
}

// What no host holds is not written before it is deleted, and one that is gone meanwhile is no error.
func TestNamespaceDeletionOfNothing(t *testing.T) {
	s := newStorage(t, base.Deleters{NamespaceDeleted: func(context.Context, string) (time.Time, error) { return time.Now(), nil }}, newInstance())
	if _, _, err := s.Instance.Delete(requestAs(namespaceController, ""), "win-1", rest.ValidateAllObjectFunc, nil); err != nil || s.memory.writes != 1 {
		t.Errorf("got %v after %d writes", err, s.memory.writes)
	}
	if err := s.Instance.namespaceDeletions.removeFinalizer(requestAs(namespaceController, ""), "win-1"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

// Nothing is released, or deleted, while it is not known whether the namespace goes.
func TestNamespaceDeletionFailsClosed(t *testing.T) {
	cause := errors.New("no server")
	s := newStorage(t, base.Deleters{NamespaceDeleted: func(context.Context, string) (time.Time, error) { return time.Now(), cause }}, newInstance(heldByHost))
	if _, _, err := s.Instance.Delete(requestAs(namespaceController, ""), "win-1", rest.ValidateAllObjectFunc, nil); !errors.Is(err, cause) && !apierrors.IsInternalError(err) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Instance.DeleteCollection(requestAs(namespaceController, ""), rest.ValidateAllObjectFunc, nil, &metainternalversion.ListOptions{}); err == nil {
		t.Error("all at once: no error")
	}
	if s.memory.writes > 0 {
		t.Errorf("%d writes", s.memory.writes)
	}

	// What cannot be released now is not deleted now: it would wait for its host.
	s = newStorage(t, base.Deleters{NamespaceDeleted: func(context.Context, string) (time.Time, error) { return time.Now(), nil }}, newInstance(heldByHost))
	s.memory.refuse = cause
	if err := s.Instance.namespaceDeletions.beforeDelete(requestAs(namespaceController, ""), &metainternalversion.ListOptions{}, nil); !errors.Is(err, cause) {
		t.Errorf("one: got %v", err)
	}
	if _, err := s.Instance.DeleteCollection(requestAs(namespaceController, ""), rest.ValidateAllObjectFunc, nil, &metainternalversion.ListOptions{}); !errors.Is(err, cause) {
		t.Errorf("all at once: got %v", err)
	}
	if instance := s.stored("win-1"); s.memory.writes > 0 || instance == nil || instance.DeletionTimestamp != nil {
		t.Errorf("%d writes: %v", s.memory.writes, instance)
	}
}

// All hosts of a namespace are released before any is deleted, also when one of them is gone meanwhile.
func TestNamespaceDeletionOfAll(t *testing.T) {
	named := func(name string) *windows.WindowsInstance {
		return newInstance(heldByHost, func(i *windows.WindowsInstance) { i.Name = name })
	}
	s := newStorage(t, base.Deleters{NamespaceDeleted: func(context.Context, string) (time.Time, error) { return time.Now(), nil }}, named("a"), named("b"), named("c"))
	s.memory.vanish = "/windowsinstances/default/b"
	if err := s.Instance.namespaceDeletions.beforeDelete(requestAs(namespaceController, ""), &metainternalversion.ListOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "c"} {
		if got := s.stored(name); len(got.Finalizers) > 0 {
			t.Errorf("%s: %q", name, got.Finalizers)
		}
	}
}

func TestInstancesOfAPool(t *testing.T) {
	inPool := func(name, pool string) *windows.WindowsInstance {
		return newInstance(func(i *windows.WindowsInstance) { i.Name, i.Spec.PoolRef = name, &windows.PoolReference{Name: pool} })
	}
	s := newStorage(t, base.Deleters{}, inPool("a", "p"), inPool("b", "q"), newInstance())
	if got, err := s.Instance.OfPool(requestAs("jane", ""), "p"); err != nil || !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

// An action is recorded with who wanted it, if its preconditions hold, and nothing else of the instance changes.
func TestActions(t *testing.T) {
	uid := func(u types.UID) *metav1.Preconditions { return &metav1.Preconditions{UID: &u} }
	drain := func(p *metav1.Preconditions) runtime.Object {
		return &windows.WindowsInstanceDrain{Spec: windows.WindowsInstanceDrainSpec{DrainOptions: windows.DrainOptions{Force: true}, Preconditions: p}}
	}
	tests := []struct {
		name string
		do   func(*Storage) *ActionREST
		body runtime.Object
		want v1alpha1.OperationType // empty: it is refused
	}{
		{"drain", func(s *Storage) *ActionREST { return s.Drain }, drain(uid("u")), v1alpha1.OperationDrain},
		{"drain another one", func(s *Storage) *ActionREST { return s.Drain }, drain(uid("v")), ""},
		{"uncordon", func(s *Storage) *ActionREST { return s.Uncordon }, &windows.WindowsInstanceUncordon{}, v1alpha1.OperationUncordon},
		{"uncordon another one", func(s *Storage) *ActionREST { return s.Uncordon }, &windows.WindowsInstanceUncordon{Spec: windows.WindowsInstanceUncordonSpec{Preconditions: uid("v")}}, ""},
		{"reboot", func(s *Storage) *ActionREST { return s.Reboot }, &windows.WindowsInstanceReboot{Spec: windows.WindowsInstanceRebootSpec{Drain: &windows.DrainOptions{}, RebootOptions: windows.RebootOptions{Mode: "Graceful"}}}, v1alpha1.OperationReboot},
		{"reboot another one", func(s *Storage) *ActionREST { return s.Reboot }, &windows.WindowsInstanceReboot{Spec: windows.WindowsInstanceRebootSpec{Drain: &windows.DrainOptions{}, Preconditions: uid("v")}}, ""},
		{"reconfigure", func(s *Storage) *ActionREST { return s.Reconfigure }, &windows.WindowsInstanceReconfigure{}, v1alpha1.OperationReconfigure},
		{"reconfigure another one", func(s *Storage) *ActionREST { return s.Reconfigure }, &windows.WindowsInstanceReconfigure{Spec: windows.WindowsInstanceReconfigureSpec{Preconditions: uid("v")}}, ""},
		{"drain with the right to uncordon", func(s *Storage) *ActionREST { return s.Uncordon }, drain(nil), ""},
		{"reboot with the right to drain", func(s *Storage) *ActionREST { return s.Drain }, &windows.WindowsInstanceReboot{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, dry := range []bool{false, true} {
				s := newStorage(t, base.Deleters{}, newInstance(heldByHost, loggedIn))
				options := &metav1.CreateOptions{}
				if dry {
					options.DryRun = []string{metav1.DryRunAll}
				}
				ctx := audit.WithAuditContext(requestAs("jane", "drain"))
				answer, err := tt.do(s.Storage).Create(ctx, "win-1", tt.body.DeepCopyObject(), rest.ValidateAllObjectFunc, options)
				if (err == nil) != (tt.want != "") {
					t.Fatalf("dry run %v: got %v", dry, err)
				}
				got := s.stored("win-1")
				if err != nil || dry {
					if got.Status.Operation != nil || s.memory.writes > 0 {
						t.Errorf("dry run %v: it was recorded", dry)
					}
				} else {
					if op := got.Status.Operation; op == nil || string(op.Type) != string(tt.want) || op.RequestedBy != "jane" || !strings.HasPrefix(op.ID, strings.ToLower(string(tt.want))+"-") || len(op.ID) != len(tt.want)+1+v1alpha1.OperationIDLength {
						t.Errorf("recorded %+v", op)
					}
					if id, _ := audit.AuditContextFrom(ctx).GetEventAnnotation("windows.openshift.io/operation"); id != got.Status.Operation.ID {
						t.Errorf("the audit log has operation %q, want %q", id, got.Status.Operation.ID)
					}
					if want := newInstance(heldByHost); !reflect.DeepEqual(got.Spec, want.Spec) || !slices.Equal(got.Finalizers, want.Finalizers) || got.Generation != want.Generation {
						t.Errorf("it became %+v", got)
					}
				}
				if planned := dry && tt.want == v1alpha1.OperationReconfigure; planned != (s.hosts.planned != nil) {
					t.Errorf("dry run %v: planned for %v", dry, s.hosts.planned)
				}
				if err == nil {
					checkAnswer(t, answer, tt.want)
				}
			}
		})
	}
}

// TestAdoptIsRefused: a host is taken over only from another operator, and only once that has ended. Otherwise nothing is
// recorded, and the host is not asked.
func TestAdoptIsRefused(t *testing.T) {
	configured := func(reason string) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) {
			i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionUnknown, Reason: reason, Message: "so it is"}}
		}
	}
	runs := apierrors.NewConflict(windows.Resource("windowsinstances"), "win-1", errors.New("oc scale"))
	for name, tt := range map[string]struct {
		change  func(*windows.WindowsInstance)
		refuses error
		say     string // empty: it is recorded
	}{
		"of WMCO":             {change: configured(v1alpha1.ReasonForeignNode)},
		"the status is late":  {change: configured(v1alpha1.ReasonManagedByWMCO)},
		"WMCO runs":           {change: configured(v1alpha1.ReasonManagedByWMCO), refuses: runs, say: "oc scale"},
		"ours":                {change: configured(v1alpha1.ReasonConfigured), say: "not left to another operator: so it is"},
		"nothing is known":    {change: func(*windows.WindowsInstance) {}, say: "nothing is known"},
		"not logged in to it": {change: func(i *windows.WindowsInstance) { configured(v1alpha1.ReasonForeignNode)(i); i.Status.MachineID = "" }, say: "has not logged in"},
	} {
		for _, dry := range []bool{false, true} {
			s := newStorage(t, base.Deleters{}, newInstance(heldByHost, loggedIn, tt.change))
			s.hosts.refuses = tt.refuses
			options := &metav1.CreateOptions{}
			if dry {
				options.DryRun = []string{metav1.DryRunAll}
			}
			answer, err := s.Adopt.Create(requestAs("jane", "adopt"), "win-1", &windows.WindowsInstanceAdopt{}, rest.ValidateAllObjectFunc, options)
			if tt.say != "" {
				if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), tt.say) || s.memory.writes > 0 || s.hosts.planned != nil {
					t.Errorf("%s, dry run %v: %v, %d writes, planned %v", name, dry, err, s.memory.writes, s.hosts.planned)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, dry run %v: %v", name, dry, err)
				continue
			}
			body := answer.(*v1alpha1.WindowsInstanceAdopt) //nolint:forcetypeassert // it is the body of the request
			if op := body.Status.Operation; op == nil || op.Type != v1alpha1.OperationAdopt || (s.memory.writes > 0) == dry || (len(body.Status.Plan) > 0) != dry {
				t.Errorf("%s, dry run %v: %+v, %d writes", name, dry, body.Status, s.memory.writes)
			}
		}
	}
}

// TestReleaseIsRefused: only a host of ours that is a Node is given back, once, and where there may be somebody to take it. Otherwise
// nothing is recorded. What a release has begun can be requested again.
func TestReleaseIsRefused(t *testing.T) {
	node := &windows.NodeReference{Name: "win-1", UID: "uid"}
	ours := func(i *windows.WindowsInstance) {
		i.Status.Node = node
		i.Status.History = []windows.Operation{{ID: "op-0", Type: windows.OperationType(v1alpha1.OperationReconfigure), Phase: "Succeeded", HostChanged: true}}
	}
	released := func(phase windows.OperationPhase) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) {
			ours(i)
			i.Status.Operation = &windows.Operation{ID: "op-1", Type: windows.OperationType(v1alpha1.OperationRelease), Phase: phase, HostReleased: true}
		}
	}
	elsewhere := apierrors.NewConflict(windows.Resource("windowsinstances"), "win-1", errors.New("not OpenShift"))
	for name, tt := range map[string]struct {
		change  func(*windows.WindowsInstance)
		refuses error
		say     string // empty: it is recorded
	}{
		"ours":              {change: ours},
		"released half way": {change: released("Failed")},
		"released":          {change: released("Succeeded"), say: "op-1 has released the host already. To take it back: kubectl windows adopt win-1"},
		"being released":    {change: released("Running"), say: "wait until it has ended"},
		"elsewhere":         {change: ours, refuses: elsewhere, say: "not OpenShift"},
		"no Node":           {change: func(i *windows.WindowsInstance) { ours(i); i.Status.Node = nil }, say: "kubectl delete windowsinstance win-1"},
		"not logged in":     {change: func(i *windows.WindowsInstance) { ours(i); i.Status.MachineID, i.Status.History = "", nil }, say: "has not logged in"},
		"nothing is known":  {change: func(i *windows.WindowsInstance) { i.Status.Node = node }, say: "there is nothing to release"},
		"a host of somebody": {change: func(i *windows.WindowsInstance) {
			i.Status.Node = node
			i.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonForeignNode, Message: "so it is"}}
		}, say: "there is nothing to release. so it is"},
		"something is being done": {change: func(i *windows.WindowsInstance) {
			ours(i)
			i.Status.Operation = &windows.Operation{ID: "op-1", Type: windows.OperationType(v1alpha1.OperationReboot), Phase: "Running"}
		}, say: "wait until it has ended"},
	} {
		for _, dry := range []bool{false, true} {
			s := newStorage(t, base.Deleters{}, newInstance(heldByHost, loggedIn, tt.change))
			s.hosts.refuses = tt.refuses
			options := &metav1.CreateOptions{}
			if dry {
				options.DryRun = []string{metav1.DryRunAll}
			}
			answer, err := s.Release.Create(requestAs("jane", "release"), "win-1", &windows.WindowsInstanceRelease{}, rest.ValidateAllObjectFunc, options)
			if tt.say != "" {
				if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), tt.say) || s.memory.writes > 0 || s.hosts.planned != nil {
					t.Errorf("%s, dry run %v: %v, %d writes, planned %v", name, dry, err, s.memory.writes, s.hosts.planned)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, dry run %v: %v", name, dry, err)
				continue
			}
			body := answer.(*v1alpha1.WindowsInstanceRelease) //nolint:forcetypeassert // it is the body of the request
			if op := body.Status.Operation; op == nil || op.Type != v1alpha1.OperationRelease || (s.memory.writes > 0) == dry || (len(body.Status.Plan) > 0) != dry {
				t.Errorf("%s, dry run %v: %+v, %d writes", name, dry, body.Status, s.memory.writes)
			}
		}
	}
}

// checkAnswer wants the operation in the answer, under the name of the instance.
func checkAnswer(t *testing.T, answer runtime.Object, want v1alpha1.OperationType) {
	t.Helper()
	var op *v1alpha1.Operation
	switch body := answer.(type) {
	case *v1alpha1.WindowsInstanceDrain:
		op = body.Status.Operation
		if op == nil || op.Drain == nil || !op.Drain.Force {
			t.Errorf("the options are lost: %+v", op)
		}
	case *v1alpha1.WindowsInstanceUncordon:
		op = body.Status.Operation
	case *v1alpha1.WindowsInstanceReboot:
		op = body.Status.Operation
		if op == nil || op.Drain == nil || op.Reboot == nil || op.Reboot.Mode != "Graceful" {
			t.Errorf("the options are lost: %+v", op)
		}
	case *v1alpha1.WindowsInstanceReconfigure:
		op = body.Status.Operation
	default:
		t.Fatalf("the answer is a %T", answer)
	}
	if op == nil || op.Type != want {
		t.Errorf("the answer has %+v", op)
	}
	object := answer.(metav1.Object) //nolint:forcetypeassert // all bodies are
	if object.GetName() != "win-1" || object.GetNamespace() != "default" {
		t.Errorf("the answer is that of %s/%s", object.GetNamespace(), object.GetName())
	}
}

// What is refused before anything is read or written.
func TestActionsRefuse(t *testing.T) {
	refused := errors.New("admission says no")
	badSelector := &windows.WindowsInstanceDrain{Spec: windows.WindowsInstanceDrainSpec{DrainOptions: windows.DrainOptions{PodSelector: "a in"}}}
	elsewhere := &windows.WindowsInstanceDrain{ObjectMeta: metav1.ObjectMeta{Name: "win-2"}}
	drain := func(s *Storage) *ActionREST { return s.Drain }
	reboot := func(s *Storage) *ActionREST { return s.Reboot }
	badReboot := &windows.WindowsInstanceReboot{Spec: windows.WindowsInstanceRebootSpec{RebootOptions: windows.RebootOptions{Mode: "Force"}, Drain: &windows.DrainOptions{PodSelector: "a in"}}}
	tests := []struct {
		name     string
		do       func(*Storage) *ActionREST
		ctx      context.Context //nolint:containedctx // a row of a table
		instance string
		body     runtime.Object
		validate rest.ValidateObjectFunc
		want     func(error) bool
	}{
		{"options of a reboot that are not valid", reboot, requestAs("jane", "reboot"), "win-1", badReboot, nil, apierrors.IsInvalid},
		{"options that are not valid", drain, requestAs("jane", "drain"), "win-1", badSelector, nil, func(err error) bool {
			return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "spec.podSelector")
		}},
		{"the body of another request", drain, requestAs("jane", "drain"), "win-1", elsewhere, nil, apierrors.IsInvalid},
		{"admission", drain, requestAs("jane", "drain"), "win-1", &windows.WindowsInstanceDrain{}, func(context.Context, runtime.Object) error { return refused }, func(err error) bool { return errors.Is(err, refused) }},
		{"nobody", drain, requestContext("drain"), "win-1", &windows.WindowsInstanceDrain{}, nil, apierrors.IsUnauthorized},
		{"somebody without a name", drain, requestAs("", "drain"), "win-1", &windows.WindowsInstanceDrain{}, nil, apierrors.IsUnauthorized},
		{"an instance that is not there", drain, requestAs("jane", "drain"), "win-3", &windows.WindowsInstanceDrain{}, nil, apierrors.IsNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStorage(t, base.Deleters{}, newInstance())
			_, err := tt.do(s.Storage).Create(tt.ctx, tt.instance, tt.body, tt.validate, &metav1.CreateOptions{})
			if !tt.want(err) || s.memory.writes > 0 {
				t.Errorf("got %v after %d writes", err, s.memory.writes)
			}
		})
	}
}

// Only the operation that was meant is canceled.
func TestCancel(t *testing.T) {
	running := newInstance(func(i *windows.WindowsInstance) { i.Status.Operation = operation("drain-1", windows.OperationRunning) })
	for _, tt := range []struct {
		id   string
		want string
	}{{"drain-1", "jane"}, {"drain-2", ""}} {
		s := newStorage(t, base.Deleters{}, running)
		body := &windows.WindowsInstanceCancel{Spec: windows.WindowsInstanceCancelSpec{OperationID: tt.id}}
		_, err := s.Cancel.Create(requestAs("jane", "cancel"), "win-1", body, nil, &metav1.CreateOptions{})
		if got := s.stored("win-1").Status.Operation.CancelRequestedBy; got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: canceled by %q, %v", tt.id, got, err)
		}
	}
}
