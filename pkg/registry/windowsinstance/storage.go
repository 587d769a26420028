// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"fmt"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
)

// Names of the subresources, as they stand in storage maps, RBAC rules and the
// check for long-running requests.
const (
	SubresourceLog         = "log"
	SubresourceLogs        = "logs"
	SubresourceDrain       = "drain"
	SubresourceUncordon    = "uncordon"
	SubresourceReboot      = "reboot"
	SubresourceReconfigure = "reconfigure"
	SubresourceCancel      = "cancel"
	SubresourceExec        = "exec"
	SubresourcePortForward = "portforward"
)

// LongRunningSubresources are the subresources whose requests may last for ever.
// The server must exempt them from its request timeout.
func LongRunningSubresources() []string {
	return []string{SubresourceLog, SubresourceLogs, SubresourceExec, SubresourcePortForward}
}

// Storage holds the storage of the resource and of each subresource.
type Storage struct {
	Instance *REST
	Status   *base.StatusREST
	Log      *LogREST
	Logs     *LogREST
	// Actions are the subresources that record an operation, by their names.
	Actions     map[string]*ActionREST
	Exec        *ExecREST
	PortForward *PortForwardREST
	Inspect     *InspectREST
	Check       *CheckREST
}

// Hosts is what the subresources need of the way to hosts. Each of them uses one part of it.
type Hosts interface {
	LogOpener
	SessionOpener
	Planner
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
	Pools PoolGetter
	// SourceWriters are the users whom the guard lets delete instances that a
	// source asks for: the controller itself.
	SourceWriters []string
	// Hosts is the way to hosts.
	Hosts Hosts
	// Streams limits and ends streams of logs, exec sessions and port forwards.
	Streams *Streams
	// SessionEvents is told about sessions; nil: nobody is.
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
		PredicateFunc:             match,
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
	if o.SessionEvents == nil {
		o.SessionEvents = noSessionEvents{}
	}
	live := sessions{
		instances: store, authorizer: o.Authorizer,
		opener: o.Hosts, events: o.SessionEvents, streams: o.Streams, recording: o.Recording,
	}
	return &Storage{
		Instance: &REST{
			Store:       store,
			guard:       sourceGuard{writers: o.SourceWriters},
			keys:        keyGuard{authorizer: o.Authorizer},
			abandon:     abandonGuard{authorizer: o.Authorizer},
			credentials: credentialGuard{credentials: base.NewCredentialAuthorizer(o.Authorizer), pools: o.Pools},
		},
		Status:      status,
		Actions:     newActions(o.Scheme, status, o.Hosts),
		Log:         newLogREST(store, o.Hosts, o.Streams, endless),
		Logs:        newLogREST(store, o.Hosts, o.Streams, beforeFrontProxyTimeout),
		Exec:        &ExecREST{live},
		PortForward: &PortForwardREST{live, o.PortForwardPorts},
		Inspect:     newInspectREST(store, o.Hosts),
		Check:       newCheckREST(store, o.Hosts),
	}, nil
}

// REST serves the resource itself.
type REST struct {
	*genericregistry.Store
	guard       sourceGuard
	keys        keyGuard
	abandon     abandonGuard
	credentials credentialGuard
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

// Create adds the checks of who may have which credentials used, and leave a host as it is.
func (r *REST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return r.Store.Create(ctx, obj, r.credentials.validateCreate(r.abandon.validateCreate(validate)), options)
}

// Update adds the same checks, and the one of who may change the trusted host keys.
// Server-side apply creates through here, too.
func (r *REST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, force bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	create = r.credentials.validateCreate(r.abandon.validateCreate(create))
	update = r.credentials.validateUpdate(r.abandon.validateUpdate(r.keys.validateUpdate(update)))
	return r.Store.Update(ctx, name, info, create, update, force, options)
}

// Delete adds the guard against deleting what a source still asks for.
func (r *REST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return r.Store.Delete(ctx, name, r.guard.validateDelete(validate), options)
}

// DeleteCollection adds the same guard.
func (r *REST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.Store.DeleteCollection(ctx, r.guard.validateDelete(validate), options, list)
}
