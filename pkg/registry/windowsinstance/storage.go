// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
	"github.com/openshift/windows-instance-api/pkg/stream/relief"
)

// LongRunningSubresources are the subresources whose requests may last for ever.
// The server must exempt them from its request timeout.
func LongRunningSubresources() []string { return []string{"log", "logs", "exec", "portforward"} }

// Storage holds the storage of the resource and of each subresource.
type Storage struct {
	Instance    *REST
	Status      *base.StatusREST
	Log         *LogREST
	Logs        *LogREST
	Exec        *ExecREST
	PortForward *PortForwardREST
	Inspect     *InspectREST
	Check       *CheckREST
	// The subresources that record an operation.
	Drain, Uncordon, Reboot, Reconfigure, Adopt, Release, Cancel *ActionREST
}

// Hosts is what the subresources need of the way to hosts. Each of them uses one part of it.
type Hosts interface {
	LogOpener
	SessionOpener
	Planner
	Adopter
	Releaser
	Inspector
	Checker
}

// Options are what the storage needs from the rest of the server.
type Options struct {
	// Scheme knows the internal and the served types.
	Scheme *runtime.Scheme
	// RESTOptionsGetter says where objects are kept.
	RESTOptionsGetter generic.RESTOptionsGetter
	// Authorizer decides what goes beyond the verb of a request: who may change
	// which host key is trusted, and who may have which credentials used.
	Authorizer authorizer.Authorizer
	// Pools reads the pools that instances belong to.
	Pools rest.Getter
	// Deleters are those who delete without being people. They may delete instances that a
	// source requests.
	Deleters base.Deleters
	// MaxPerNamespace is how many instances a namespace may have; zero is any number.
	MaxPerNamespace int
	// Hosts is the way to hosts.
	Hosts Hosts
	// Streams limits streams of logs, exec sessions and port forwards, and ends them with the server.
	Streams *limits.Streams
	// Memory ends streams when the server is short of memory.
	Memory *relief.Memory
	// SessionEvents receives the events of sessions.
	SessionEvents SessionEvents
	// PortForwardPorts are the ports of a host that may be forwarded to; see
	// [DefaultPortForwardPorts].
	PortForwardPorts []int
	// Recording says whether exec sessions are recorded.
	Recording RecordingOptions
}

// NewStorage builds the storage of WindowsInstance and its subresources.
func NewStorage(o Options) (*Storage, error) {
	strategy := newStrategy(o.Scheme)
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &windows.WindowsInstance{} },
		NewListFunc:               func() runtime.Object { return &windows.WindowsInstanceList{} },
		DefaultQualifiedResource:  windows.Resource("windowsinstances"),
		SingularQualifiedResource: windows.Resource("windowsinstance"),
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		ResetFieldsStrategy:       strategy,
		TableConvertor:            tableConvertor{},
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: o.RESTOptionsGetter, AttrFunc: getAttrs}); err != nil {
		return nil, fmt.Errorf("completing the store of windowsinstances: %w", err)
	}

	status := base.NewStatusREST(store, statusStrategy{strategy})
	action := func(body runtime.Object) *ActionREST {
		return &ActionREST{scheme: o.Scheme, status: status, planner: o.Hosts, adopter: o.Hosts, releaser: o.Hosts, streams: o.Streams, now: time.Now, body: body}
	}
	again := &rechecks{instances: store, authorizer: o.Authorizer, clock: clock.RealClock{}}
	live := sessions{
		instances: store, authorizer: o.Authorizer, rechecks: again,
		opener: o.Hosts, events: o.SessionEvents, streams: o.Streams, track: o.Memory.Track, recording: o.Recording,
	}
	return &Storage{
		Instance: &REST{
			Store:              store,
			namespaceDeletions: namespaceDeletions{store: uncheckedStore(store, strategy), deleters: o.Deleters, now: time.Now},
			source:             sourceGuard{deleters: o.Deleters},
			keys:               keyGuard{authorizer: o.Authorizer, deleters: o.Deleters, pools: o.Pools},
			abandon:            abandonGuard{authorizer: o.Authorizer},
			credentials:        credentialGuard{authorizer: o.Authorizer, pools: o.Pools},
			atMost:             base.AtMost[*windows.WindowsInstance](store, o.MaxPerNamespace, o.Deleters),
		},
		Status:      status,
		Log:         newLogREST(store, o.Hosts, o.Streams, o.Memory.Track, again, endless),
		Logs:        newLogREST(store, o.Hosts, o.Streams, o.Memory.Track, again, beforeFrontProxyTimeout),
		Exec:        &ExecREST{live},
		PortForward: &PortForwardREST{live, o.PortForwardPorts},
		Inspect:     &InspectREST{instances: store, inspector: o.Hosts, streams: o.Streams},
		Check:       &CheckREST{instances: store, checker: o.Hosts, streams: o.Streams},
		Drain:       action(&windows.WindowsInstanceDrain{}),
		Uncordon:    action(&windows.WindowsInstanceUncordon{}),
		Reboot:      action(&windows.WindowsInstanceReboot{}),
		Reconfigure: action(&windows.WindowsInstanceReconfigure{}),
		Adopt:       action(&windows.WindowsInstanceAdopt{}),
		Release:     action(&windows.WindowsInstanceRelease{}),
		Cancel:      action(&windows.WindowsInstanceCancel{}),
	}, nil
}

// REST serves the resource itself.
type REST struct {
	*genericregistry.Store
	namespaceDeletions namespaceDeletions
	source             sourceGuard
	keys               keyGuard
	abandon            abandonGuard
	credentials        credentialGuard
	atMost             func(ctx context.Context, instance *windows.WindowsInstance) error
}

var (
	_ rest.StandardStorage    = &REST{}
	_ rest.ShortNamesProvider = &REST{}
	_ rest.CategoriesProvider = &REST{}
)

// ShortNames implements [rest.ShortNamesProvider].
func (*REST) ShortNames() []string { return []string{"wi"} }

// Categories implements [rest.CategoriesProvider].
func (*REST) Categories() []string { return []string{"windows"} }

// Create adds the checks of how many there may be, who may use which credentials, and who may leave a host as it is.
func (r *REST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return r.Store.Create(ctx, obj, r.guardCreate(validate), options)
}

// Update adds the same checks, and the one of who may change the trusted host keys.
// Server-side apply creates through here, too.
func (r *REST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, force bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	update = base.GuardUpdate(update, r.credentials.checkUpdate, r.abandon.checkUpdate, r.keys.checkUpdate)
	return r.Store.Update(ctx, name, info, r.guardCreate(create), update, force, options)
}

func (r *REST) guardCreate(next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return base.Guard(next, r.credentials.checkCreate, r.keys.checkCreate, r.abandon.checkCreate, r.atMost)
}

// Delete adds the guard against deleting what a source still requests, and lets an instance
// go that goes with its namespace.
func (r *REST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	selector := fields.OneTermEqualSelector("metadata.name", name)
	if err := r.namespaceDeletions.beforeDelete(ctx, &metainternalversion.ListOptions{FieldSelector: selector}, options); err != nil {
		return nil, false, err
	}
	return r.Store.Delete(ctx, name, base.Guard(validate, r.source.checkDelete), options)
}

// DeleteCollection adds the same.
func (r *REST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	if err := r.namespaceDeletions.beforeDelete(ctx, list, options); err != nil {
		return nil, err
	}
	return r.Store.DeleteCollection(ctx, base.Guard(validate, r.source.checkDelete), options, list)
}

// OfPool returns the names of the instances in the namespace of the request that name a pool.
func (r *REST) OfPool(ctx context.Context, pool string) ([]string, error) {
	found, err := listOf(ctx, r.Store, &metainternalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.poolRef.name", pool)})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].Name
	}
	return names, nil
}

func listOf(ctx context.Context, store *genericregistry.Store, options *metainternalversion.ListOptions) ([]windows.WindowsInstance, error) {
	obj, err := store.List(ctx, options)
	if err != nil {
		return nil, err
	}
	list, err := base.As[*windows.WindowsInstanceList](obj)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
