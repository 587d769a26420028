// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package apiserver builds the aggregated API server of windows.openshift.io: its
// options, the group with its storage, which requests may run for ever, and how the
// server stops. It knows nothing of how hosts are reached: that comes in through
// [ExtraConfig]. It must not import package host or any controller.
package apiserver

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/registry/windowsinstance"
	"github.com/openshift/windows-instance-api/pkg/registry/windowsnodepool"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
	"github.com/openshift/windows-instance-api/pkg/stream/relief"
)

// ExtraConfig is what this server needs beyond what every API server needs.
type ExtraConfig struct {
	// Options are those of the storage of instances. New sets what is the same for all
	// storage: Scheme, RESTOptionsGetter, Authorizer and Pools.
	windowsinstance.Options
	// MachineSets are what the scale of a pool reads and writes.
	MachineSets windowsnodepool.ScaleSource
	// DrainTimeout is how long open streams get to end when the server stops.
	DrainTimeout time.Duration
}

// Config is the configuration of the server.
type Config struct {
	Generic *genericapiserver.RecommendedConfig
	Extra   ExtraConfig
}

// longRunningRequests are exempt from the request timeout: watches and streams.
// kube-apiserver has a list of its own in front of us, on which of ours the
// names log, exec and portforward stand.
var longRunningRequests = genericfilters.BasicLongRunningRequestCheck(
	sets.NewString("watch"), sets.NewString(windowsinstance.LongRunningSubresources()...))

// New builds the server and installs the API group.
func (c *Config) New() (*genericapiserver.GenericAPIServer, error) {
	authorizer := c.Generic.Authorization.Authorizer
	optsGetter := c.Generic.RESTOptionsGetter
	shutdownDelay := c.Generic.ShutdownDelayDuration
	server, err := c.Generic.Complete().New("windows-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("building the API server: %w", err)
	}
	var instances *windowsinstance.Storage // each of the two resources reads the other one
	pools, err := windowsnodepool.NewStorage(windowsnodepool.Options{
		Scheme:            Scheme,
		RESTOptionsGetter: optsGetter,
		Authorizer:        authorizer,
		MachineSets:       c.Extra.MachineSets,
		Deleters:          c.Extra.Deleters,
		MaxPerNamespace:   c.Extra.MaxPerNamespace,
		Members:           func(ctx context.Context, pool string) ([]string, error) { return instances.Instance.OfPool(ctx, pool) },
	})
	if err != nil {
		return nil, err
	}
	options := c.Extra.Options
	options.Scheme, options.RESTOptionsGetter, options.Authorizer, options.Pools = Scheme, optsGetter, authorizer, pools.Pool
	if instances, err = windowsinstance.NewStorage(options); err != nil {
		return nil, err
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(v1alpha1.GroupName, Scheme, ParameterCodec, Codecs)
	group.NegotiatedSerializer = withoutProtobuf{Codecs}
	group.VersionedResourcesStorageMap[v1alpha1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"windowsinstances":             instances.Instance,
		"windowsinstances/status":      instances.Status,
		"windowsinstances/log":         instances.Log,
		"windowsinstances/logs":        instances.Logs,
		"windowsinstances/exec":        instances.Exec,
		"windowsinstances/portforward": instances.PortForward,
		"windowsinstances/inspect":     instances.Inspect,
		"windowsinstances/check":       instances.Check,
		"windowsinstances/drain":       instances.Drain,
		"windowsinstances/uncordon":    instances.Uncordon,
		"windowsinstances/reboot":      instances.Reboot,
		"windowsinstances/reconfigure": instances.Reconfigure,
		"windowsinstances/adopt":       instances.Adopt,
		"windowsinstances/release":     instances.Release,
		"windowsinstances/cancel":      instances.Cancel,
		"windowsnodepools":             pools.Pool,
		"windowsnodepools/status":      pools.Status,
		"windowsnodepools/scale":       pools.Scale,
	}
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("installing the API group: %w", err)
	}
	if err := server.AddPreShutdownHook("drain-streams", func() error {
		drainStreams(c.Extra.Streams, shutdownDelay, c.Extra.DrainTimeout)
		return nil // an error would end the server at once, and the requests of others with it
	}); err != nil {
		return nil, fmt.Errorf("adding the shutdown hook: %w", err)
	}
	if budget := relief.Budget(); budget > 0 {
		if err := server.AddPostStartHook("relieve-memory", func(hook genericapiserver.PostStartHookContext) error {
			go c.Extra.Memory.Relieve(hook.Context, clock.RealClock{}, budget, relief.Live)
			return nil
		}); err != nil {
			return nil, fmt.Errorf("adding the start hook: %w", err)
		}
	}
	return server, nil
}

// drainStreams ends the streams when the server stops. Readiness has failed by
// now; for the shutdown delay kube-apiserver may still send requests here, so they
// are served until it is over.
func drainStreams(streams *limits.Streams, delay, timeout time.Duration) {
	time.Sleep(delay)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if n := streams.Open(); n > 0 {
		klog.InfoS("Ending streams", "streams", n)
	}
	if err := streams.Drain(ctx); err != nil {
		klog.ErrorS(err, "Streams were broken off")
	}
}
