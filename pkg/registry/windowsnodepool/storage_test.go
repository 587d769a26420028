// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsnodepool

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
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
	"github.com/openshift/windows-instance-api/pkg/apis/windows/install"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// memory keeps one pool, as far as a store needs it here.
type memory struct {
	storage.Interface // nil: nothing else is expected to be called

	pool   *windows.WindowsNodePool // nil: there is none
	writes int
}

func (*memory) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (*memory) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

func (m *memory) write(obj, out runtime.Object) {
	m.writes++
	m.pool, _ = obj.DeepCopyObject().(*windows.WindowsNodePool)
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(obj.DeepCopyObject()).Elem())
}

func (m *memory) Create(_ context.Context, _ string, obj, out runtime.Object, _ uint64) error {
	m.write(obj, out)
	return nil
}

func (m *memory) Get(_ context.Context, key string, _ storage.GetOptions, out runtime.Object) error {
	if m.pool == nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	m.pool.DeepCopyInto(out.(*windows.WindowsNodePool)) //nolint:forcetypeassert // nothing else is kept here
	return nil
}

func (m *memory) GetList(_ context.Context, _ string, _ storage.ListOptions, out runtime.Object) error {
	list := out.(*windows.WindowsNodePoolList) //nolint:forcetypeassert // nothing else is kept here
	list.Items = append(list.Items, *m.pool)
	return nil
}

func (m *memory) GuaranteedUpdate(_ context.Context, _ string, out runtime.Object, _ bool, _ *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object) error {
	current, version := &windows.WindowsNodePool{}, uint64(0)
	if m.pool != nil {
		current, version = m.pool.DeepCopy(), 7
	}
	changed, _, err := update(current, storage.ResponseMeta{ResourceVersion: version})
	if err == nil {
		m.write(changed, out)
	}
	return err
}

func (m *memory) Delete(ctx context.Context, _ string, _ runtime.Object, _ *storage.Preconditions, validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) error {
	if err := validate(ctx, m.pool); err != nil {
		return err
	}
	m.writes++
	return nil
}

// fixture is the storage with what it keeps and asks.
type fixture struct {
	*Storage
	memory  *memory
	members []string

	decision authorizer.Decision
	asked    []string
}

func newStorage(t *testing.T, pool *windows.WindowsNodePool) *fixture {
	t.Helper()
	s := &fixture{memory: &memory{pool: pool}}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	config := &storagebackend.Config{Codec: serializer.NewCodecFactory(scheme).LegacyCodec(v1alpha1.SchemeGroupVersion)}
	var err error
	s.Storage, err = NewStorage(Options{
		Scheme: scheme, MachineSets: &machineSets{},
		Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			s.asked = append(s.asked, a.GetUser().GetName()+" "+a.GetVerb()+" "+a.GetResource()+"/"+a.GetName()+" in "+a.GetNamespace())
			return s.decision, "", nil
		}),
		Members: func(_ context.Context, pool string) ([]string, error) {
			if pool != "p" {
				return nil, errors.New("asked for pool " + pool)
			}
			return s.members, nil
		},
		RESTOptionsGetter: generic.RESTOptions{
			ResourcePrefix: "windowsnodepools", DeleteCollectionWorkers: 1, StorageConfig: config.ForResource(windows.Resource("windowsnodepools")),
			Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
				storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
				return s.memory, func() {}, nil
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func jane() context.Context {
	return genericapirequest.WithUser(requestContext(""), &user.DefaultInfo{Name: "jane"})
}

func withBastion(name string, change func(*windows.Bastion)) *windows.WindowsNodePool {
	pool := withSecret("key")
	pool.Spec.Template.Bastion = &windows.Bastion{
		Address: "10.0.0.9", Port: 22, Username: "jump", CredentialsSecretRef: windows.SecretReference{Name: name},
		HostKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJXl0Yl1n9ZeKS5YSsDF1PAI1oRCiK9qXh1n3yXkQ0k6"},
	}
	change(pool.Spec.Template.Bastion)
	return pool
}

func withSecret(name string) *windows.WindowsNodePool {
	pool := validPool()
	if name != "" {
		pool.Spec.Template.CredentialsSecretRef = &windows.SecretReference{Name: name}
	}
	return pool
}

// Who gives the hosts of a pool other credentials needs the right to use them, also by an
// apply that creates the pool; without it nothing is written.
func TestStorageAsksForCredentials(t *testing.T) {
	const cluster, secret = "jane use windowscredentials/cluster in default", "jane get secrets/key in default"
	const jump, trust = ", jane get secrets/jump in default", "jane trust windowshostkeys/p in default"
	same := func(*windows.Bastion) {}
	elsewhere := func(b *windows.Bastion) { b.Address = "10.0.0.10" }
	otherKeys := func(b *windows.Bastion) {
		b.HostKeys = append(b.HostKeys, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHGXhyV5QGq2KzJmVtN8xuDY7k0Rk5oKfGQ0zX8b3r2e")
	}
	for _, tt := range []struct {
		name          string
		create        bool
		before, after *windows.WindowsNodePool
		want          string
	}{
		{"create", true, nil, withSecret(""), cluster},
		{"create with a Secret", true, nil, withSecret("key"), secret},
		{"apply a new one", false, nil, withSecret("key"), secret},
		{"another Secret", false, withSecret("old"), withSecret("key"), secret},
		{"no Secret any more", false, withSecret("old"), withSecret(""), cluster},
		{"the same Secret", false, withSecret("key"), withSecret("key"), ""},
		{"create with a bastion", true, nil, withBastion("jump", same), secret + jump + ", " + trust},
		{"apply a new one with a bastion", false, nil, withBastion("jump", same), secret + jump + ", " + trust},
		{"bastion set", false, withSecret("key"), withBastion("jump", same), secret + jump + ", " + trust},
		{"bastion removed", false, withBastion("jump", same), withSecret("key"), secret + ", " + trust},
		{"address of the bastion", false, withBastion("jump", same), withBastion("jump", elsewhere), secret + jump},
		{"keys of the bastion", false, withBastion("jump", same), withBastion("jump", otherKeys), secret + jump + ", " + trust},
		{"another Secret of the bastion", false, withBastion("old", same), withBastion("jump", same), secret + jump},
		{"the same bastion", false, withBastion("jump", same), withBastion("jump", same), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, decision := range []authorizer.Decision{authorizer.DecisionAllow, authorizer.DecisionDeny} {
				s := newStorage(t, tt.before)
				s.decision = decision
				after := tt.after.DeepCopy()
				var err error
				if tt.before == nil {
					after.ResourceVersion, after.UID = "", ""
				} else {
					after.Spec.Paused = true
				}
				if tt.create {
					_, err = s.Pool.Create(jane(), after, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
				} else {
					_, _, err = s.Pool.Update(jane(), "p", rest.DefaultUpdatedObjectInfo(after), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, tt.before == nil, &metav1.UpdateOptions{})
				}
				allowed := decision == authorizer.DecisionAllow || tt.want == ""
				if allowed != (err == nil) || !allowed && !apierrors.IsForbidden(err) || (s.memory.writes > 0) != allowed {
					t.Errorf("decision %v: got %v after %d writes", decision, err, s.memory.writes)
				}
				var want []string
				if tt.want != "" {
					want = strings.Split(tt.want, ", ")
					if decision == authorizer.DecisionDeny {
						want = want[:1] // the first no is enough
					}
				}
				if diff := cmp.Diff(want, s.asked); diff != "" {
					t.Errorf("asked for (-want +got)\n%s", diff)
				}
			}
		})
	}
}

// A pool with hosts is not deleted, by itself or with all others.
func TestStorageDeletes(t *testing.T) {
	for _, members := range [][]string{nil, {"win-1"}} {
		for name, remove := range map[string]func(*fixture) error{
			"one": func(s *fixture) error {
				_, _, err := s.Pool.Delete(jane(), "p", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
				return err
			},
			"all": func(s *fixture) error {
				_, err := s.Pool.DeleteCollection(jane(), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}, &metainternalversion.ListOptions{})
				return err
			},
		} {
			s := newStorage(t, validPool())
			s.members = members
			err := remove(s)
			if want := members == nil; (err == nil) != want || !want && !apierrors.IsConflict(err) || (s.memory.writes > 0) != want {
				t.Errorf("%s of %q: got %v after %d writes", name, members, err, s.memory.writes)
			}
		}
	}
}

// Each resource has what it needs; without it, it would fail when it is first used.
func TestStorageIsComplete(t *testing.T) {
	s := newStorage(t, nil)
	store := s.Pool.Store
	if store.CreateStrategy == nil || store.UpdateStrategy == nil || store.DeleteStrategy == nil ||
		store.DefaultQualifiedResource != windows.Resource("windowsnodepools") || store.SingularQualifiedResource != windows.Resource("windowsnodepool") {
		t.Errorf("the store is %+v", store)
	}
	if _, ok := store.NewFunc().(*windows.WindowsNodePool); !ok || s.Scale.pools != rest.Getter(store) || s.Scale.source == nil || s.Status == nil {
		t.Error("a subresource lacks what it reads and writes")
	}
	if short, categories := s.Pool.ShortNames(), s.Pool.Categories(); !slices.Equal(short, []string{"wnp"}) || !slices.Equal(categories, []string{"windows"}) {
		t.Errorf("kubectl get takes %q and %q", short, categories)
	}
}

// A namespace takes as many pools as it may have; the refusal of more says what to do.
func TestMaxPerNamespace(t *testing.T) {
	for most, want := range map[int]bool{0: true, 1: false, 2: true} {
		s := newStorage(t, validPool())
		s.decision = authorizer.DecisionAllow
		s.Pool.atMost = base.AtMost[*windows.WindowsNodePool](s.Pool.Store, most, base.Deleters{Controllers: []string{"controller"}})
		pool := validPool()
		pool.Name, pool.ResourceVersion = "another", ""
		err := s.Pool.atMost(jane(), pool)
		if (err == nil) != want || err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "as many windowsnodepools as it may have, 1; delete those that are not needed")) {
			t.Errorf("%d: %v", most, err)
		}
		if _, err = s.Pool.Create(jane(), pool, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); apierrors.IsForbidden(err) == want {
			t.Errorf("%d: created with %v", most, err)
		}
		if err := s.Pool.atMost(genericapirequest.WithUser(jane(), &user.DefaultInfo{Name: "controller"}), pool); err != nil {
			t.Errorf("%d: what a source asks for is refused: %v", most, err)
		}
	}
}
