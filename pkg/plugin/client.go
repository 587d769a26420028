// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/scheme"
	windowsclient "github.com/openshift/windows-instance-api/pkg/generated/clientset/versioned/typed/windows/v1alpha1"
)

// instancesResource is the resource of WindowsInstance.
const instancesResource = "windowsinstances"

// client speaks to the API server of the cluster.
type client struct {
	config  *rest.Config
	windows windowsclient.WindowsV1alpha1Interface
	core    corev1client.CoreV1Interface
	// namespace is that of the command line or of the kubeconfig; explicit says that it
	// is of the command line.
	namespace string
	explicit  bool
}

// client makes the client that the flags describe. Nothing is requested yet.
func (e *env) client() (*client, error) {
	config, err := e.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	namespace, explicit, err := e.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	windows, err := windowsclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &client{config: config, windows: windows, core: core, namespace: namespace, explicit: explicit}, nil
}

// request begins a request for a subresource of an instance.
func (c *client) request(verb string, t target, subresource string) *rest.Request {
	return c.windows.RESTClient().Verb(verb).Namespace(t.Namespace).Resource(instancesResource).Name(t.Name).SubResource(subresource)
}

// streamURL is where a subresource that is a stream is found.
func (c *client) streamURL(t target, subresource string, options runtime.Object) *url.URL {
	return c.request("POST", t, subresource).VersionedParams(options, scheme.ParameterCodec).URL()
}

// target is one host: its instance, or what of it one may know.
type target struct {
	*v1alpha1.WindowsInstance
}

// String names the target for people.
func (t target) String() string { return t.Namespace + "/" + t.Name }

// get returns the host that a user names: by its instance, or by its Node.
//
// Without a namespace on the command line a Node is looked up in all of them, because
// its name says which host is meant.
func (c *client) get(ctx context.Context, name string) (target, error) {
	kind, name, byNode := splitName(name)
	if !byNode {
		instance, err := c.windows.WindowsInstances(c.namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			return target{instance}, nil
		case apierrors.IsForbidden(err):
			// Whoever may read logs need not be allowed to see instances.
			return target{&v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}}, nil
		case !apierrors.IsNotFound(err) || kind != "" || !aboutInstance(err):
			return target{}, err
		}
	}
	found, err := c.byNode(ctx, name)
	if err != nil {
		return target{}, err
	}
	switch len(found) {
	case 1:
		return target{&found[0]}, nil
	case 0:
		where := "namespace " + c.namespace
		if !c.explicit {
			where += ", and none of any namespace has a Node of that name"
		}
		return target{}, fmt.Errorf("%w %q in %s", errNoHost, name, where)
	}
	names := make([]string, len(found))
	for i := range found {
		names[i] = target{&found[i]}.String()
	}
	return target{}, fmt.Errorf("node %q is that of %d instances: %s; name one of them, with -n", name, len(found), strings.Join(names, ", "))
}

// errNoHost is for a name that neither an instance nor a Node has.
var errNoHost = errors.New("no Windows instance or node")

// noSuchHost says whether an error means that a host does not exist, and nothing else.
func noSuchHost(err error) bool {
	return errors.Is(err, errNoHost) || apierrors.IsNotFound(err) && aboutInstance(err)
}

// aboutInstance tells an instance that does not exist from an API that does not. For an answer
// that is no Status the client makes one up, with the instance that was requested.
func aboutInstance(err error) bool { return aboutKind(err, instancesResource) }

// aboutObject is [aboutInstance] also for pools.
func aboutObject(err error) bool { return aboutKind(err, instancesResource, poolsResource) }

func aboutKind(err error, resources ...string) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && !apierrors.IsUnexpectedServerError(err) &&
		status.ErrStatus.Details != nil && slices.Contains(resources, status.ErrStatus.Details.Kind)
}

func (c *client) byNode(ctx context.Context, node string) ([]v1alpha1.WindowsInstance, error) {
	options := metav1.ListOptions{FieldSelector: "status.node.name=" + node}
	namespace := metav1.NamespaceAll
	if c.explicit {
		namespace = c.namespace
	}
	list, err := c.windows.WindowsInstances(namespace).List(ctx, options)
	if apierrors.IsForbidden(err) && !c.explicit {
		list, err = c.windows.WindowsInstances(c.namespace).List(ctx, options)
	}
	if err != nil {
		return nil, fmt.Errorf("searching for node %s: %w", node, err)
	}
	return list.Items, nil
}

// splitName takes the forms wi/NAME and node/NAME.
func splitName(arg string) (kind, name string, byNode bool) {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok {
		return "", arg, false
	}
	switch kind {
	case "node", "nodes", "no":
		return kind, name, true
	case "wi", "windowsinstance", instancesResource, instancesResource + "." + v1alpha1.GroupName, "windowsinstance." + v1alpha1.GroupName:
		return kind, name, false
	}
	// No name has a slash in it; the server says so.
	return "", arg, false
}
