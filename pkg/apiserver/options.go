// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/generated/openapi"
	"github.com/openshift/windows-instance-api/pkg/registry/base"
	"github.com/openshift/windows-instance-api/pkg/registry/windowsinstance"
	"github.com/openshift/windows-instance-api/pkg/stream/limits"
	"github.com/openshift/windows-instance-api/pkg/stream/relief"
	"github.com/openshift/windows-instance-api/pkg/version"
)

// etcdPrefix is where the objects are kept in etcd.
const etcdPrefix = "/registry/windows.openshift.io"

// Options are the flags of the API server, but for those about reaching hosts.
type Options struct {
	// Recommended are the options of every aggregated API server.
	Recommended *genericoptions.RecommendedOptions
	// Run are the options of every API server.
	Run *genericoptions.ServerRunOptions

	// DataDir is where the embedded etcd keeps the objects. It is used when no
	// --etcd-servers are given.
	DataDir string
	// ControllerUsers are the user names that windows-controller has.
	ControllerUsers []string
	// MaxPerNamespace is how many instances a namespace may have, and how many pools.
	MaxPerNamespace int
	// Streams limit log streams.
	Streams limits.Limits
	// Sessions limit exec sessions, and port forwards likewise.
	Sessions limits.Limits
	// Queries limit checks, inspections and dry runs.
	Queries limits.Limits
	// PortForwardPorts are the ports of a host that may be forwarded to.
	PortForwardPorts []int
	// Recording says whether exec sessions are recorded.
	Recording windowsinstance.RecordingOptions
	// DrainTimeout is how long open streams get to end when the server stops.
	DrainTimeout time.Duration
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	o := &Options{
		Recommended:     genericoptions.NewRecommendedOptions(etcdPrefix, Codecs.LegacyCodec(v1alpha1.SchemeGroupVersion)),
		Run:             genericoptions.NewServerRunOptions(),
		DataDir:         "/var/lib/windows-apiserver",
		ControllerUsers: []string{"system:serviceaccount:openshift-windows-machine-config-operator:windows-controller"},
		MaxPerNamespace: 1000,
		Streams:         limits.Limits{PerHost: 64, PerUser: 256, PerUserAndHost: 16, PerNamespace: 1536, Total: 2048},
		Sessions:        limits.Limits{PerHost: 32, PerUser: 64, PerUserAndHost: 24, PerNamespace: 384, Total: 512},
		Queries:         limits.Limits{PerHost: 16, PerUser: 32, PerUserAndHost: 8, PerNamespace: 96, Total: 128},
		DrainTimeout:    10 * time.Second,
		Recording: windowsinstance.RecordingOptions{
			MaxSize: resource.QuantityValue{Quantity: resource.MustParse("1Gi")},
			MinFree: resource.QuantityValue{Quantity: resource.MustParse("1Gi")},
		},

		PortForwardPorts: windowsinstance.DefaultPortForwardPorts(),
	}
	// Watches are ended when the server stops. Without this they keep it from
	// stopping until they end by themselves.
	o.Run.ShutdownWatchTerminationGracePeriod = 10 * time.Second
	// A port that needs no privilege; a Service maps 443 to it.
	o.Recommended.SecureServing.BindPort = 8443
	// kube-apiserver sends all requests over one connection as long as that takes more streams. Its window
	// is 1 GiB and 4 MiB for each stream (golang.org/x/net/http2, transportDefaultConnFlow and
	// transportDefaultStreamFlow), so that 256 answers that nobody reads would stop all others.
	o.Recommended.SecureServing.HTTP2MaxStreamsPerConnection = 200
	// Without files the certificate comes from a Secret: no client could verify one that each process makes.
	o.Recommended.SecureServing.ServerCert.CertDirectory = ""
	o.Recommended.ExtraAdmissionInitializers = separateParameters
	return o
}

// AddFlags adds the flags to fs.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.Recommended.AddFlags(fs)
	o.Run.AddUniversalFlags(fs)
	fs.StringVar(&o.DataDir, "data-dir", o.DataDir, "Directory on a persistent volume in which the embedded etcd keeps the objects. Used when no --etcd-servers are given.")
	fs.StringSliceVar(&o.ControllerUsers, "controller-user", o.ControllerUsers, "User name of windows-controller: it may delete instances that a ConfigMap or MachineSet still requests, and its rights are asked for all objects at once. May be repeated.")
	fs.IntVar(&o.MaxPerNamespace, "max-objects-per-namespace", o.MaxPerNamespace, "How many WindowsInstances a namespace may have, and how many WindowsNodePools; more are refused with 403. 0: no limit.")
	fs.IntVar(&o.Streams.PerHost, "max-log-streams-per-host", o.Streams.PerHost, "How many logs of one host may be streamed at one time; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Streams.PerUser, "max-log-streams-per-user", o.Streams.PerUser, "How many logs one user may stream at one time; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Streams.PerUserAndHost, "max-log-streams-per-user-and-host", o.Streams.PerUserAndHost, "How many logs of one host one user may stream at one time; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Streams.PerNamespace, "max-log-streams-per-namespace", o.Streams.PerNamespace, "How many logs of the hosts of one namespace may be streamed at one time; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Streams.Total, "max-log-streams", o.Streams.Total, "How many logs this server streams at one time; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Sessions.PerHost, "max-sessions-per-host", o.Sessions.PerHost, "How many exec sessions with one host may be open at one time, and how many port forwards; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Sessions.PerUser, "max-sessions-per-user", o.Sessions.PerUser, "How many exec sessions one user may have open at one time, and how many port forwards; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Sessions.PerUserAndHost, "max-sessions-per-user-and-host", o.Sessions.PerUserAndHost, "How many exec sessions with one host one user may have open at one time, and how many port forwards; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Sessions.PerNamespace, "max-sessions-per-namespace", o.Sessions.PerNamespace, "How many exec sessions with the hosts of one namespace may be open at one time, and how many port forwards; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Sessions.Total, "max-sessions", o.Sessions.Total, "How many exec sessions this server serves at one time, and how many port forwards; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Queries.PerHost, "max-queries-per-host", o.Queries.PerHost, "How many checks, inspections, dry runs of a reconfigure, and requests to adopt or release may ask one host at one time; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Queries.PerUser, "max-queries-per-user", o.Queries.PerUser, "How many of them one user may have at one time; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Queries.PerUserAndHost, "max-queries-per-user-and-host", o.Queries.PerUserAndHost, "How many of them one user may have with one host at one time; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Queries.PerNamespace, "max-queries-per-namespace", o.Queries.PerNamespace, "How many of them may ask the hosts of one namespace at one time; more are refused with 429. 0: no limit.")
	fs.IntVar(&o.Queries.Total, "max-queries", o.Queries.Total, "How many checks, inspections, dry runs of a reconfigure, and requests to adopt or release this server runs at one time; more are refused with 429. 0: no limit.")
	fs.IntSliceVar(&o.PortForwardPorts, "port-forward-ports", o.PortForwardPorts, "Ports of a host that may be forwarded to. Empty: none.")
	fs.StringVar(&o.Recording.Directory, "session-recording-dir", o.Recording.Directory, "Directory in which what exec sessions show is recorded, one asciicast file each. Empty: nothing is recorded.")
	fs.BoolVar(&o.Recording.Required, "session-recording-required", o.Recording.Required, "Refuse and end exec sessions that cannot be recorded. Otherwise they continue, and an event reports that they are not recorded.")
	fs.Var(&o.Recording.MaxSize, "session-recording-max-size", "How large the recording of one session gets. What follows cannot be recorded. 0: no limit.")
	fs.Var(&o.Recording.MinFree, "session-recording-min-free", "How much space of the volume recordings leave to others, for example to the embedded etcd. With less, sessions cannot be recorded. 0: none.")
	fs.BoolVar(&o.Recording.AllowPortForward, "session-recording-allows-port-forward", o.Recording.AllowPortForward, "Allow port forwards although --session-recording-required is set. What goes through them is not recorded.")
	fs.DurationVar(&o.DrainTimeout, "stream-drain-timeout", o.DrainTimeout, "How long open log streams, exec sessions and port forwards get to end in good order when the server stops.")
}

// EmbeddedStorage says whether the server brings its own etcd.
func (o *Options) EmbeddedStorage() bool {
	return len(o.Recommended.Etcd.StorageConfig.Transport.ServerList) == 0
}

// OwnCertificate says whether the server makes its certificate.
func (o *Options) OwnCertificate() bool {
	return o.Recommended.SecureServing.ServerCert.CertKey.CertFile == ""
}

// Validate reports everything that is wrong with the flags.
func (o *Options) Validate() error {
	var errs []error
	if o.EmbeddedStorage() {
		if o.DataDir == "" {
			errs = append(errs, errors.New("--data-dir must be set when no --etcd-servers are given"))
		}
		// What follows is checked as it will be: with a server.
		defer func(old []string) { o.Recommended.Etcd.StorageConfig.Transport.ServerList = old }(o.Recommended.Etcd.StorageConfig.Transport.ServerList)
		o.Recommended.Etcd.StorageConfig.Transport.ServerList = []string{"unix:///embedded"}
	}
	cert := o.Recommended.SecureServing.ServerCert.CertKey
	if (cert.CertFile == "") != (cert.KeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file belong together; without both the server makes its certificate"))
	}
	if o.MaxPerNamespace < 0 {
		errs = append(errs, errors.New("--max-objects-per-namespace must not be negative"))
	}
	if o.Streams.Negative() {
		errs = append(errs, errors.New("--max-log-streams and --max-log-streams-per-… must not be negative"))
	}
	if o.Queries.Negative() {
		errs = append(errs, errors.New("--max-queries and --max-queries-per-… must not be negative"))
	}
	errs = append(errs, o.validateSessions()...)
	if o.DrainTimeout < 0 {
		errs = append(errs, errors.New("--stream-drain-timeout must not be negative"))
	}
	errs = append(errs, o.Recommended.Validate()...)
	errs = append(errs, o.Run.Validate()...)
	return errors.Join(errs...)
}

// validateSessions checks what is about exec and portforward.
func (o *Options) validateSessions() []error {
	var errs []error
	if o.Sessions.Negative() {
		errs = append(errs, errors.New("--max-sessions and --max-sessions-per-… must not be negative"))
	}
	for _, port := range o.PortForwardPorts {
		if port < 1 || port > 65535 {
			errs = append(errs, fmt.Errorf("--port-forward-ports: %d is no port", port))
		}
	}
	if o.Recording.Required && o.Recording.Directory == "" {
		errs = append(errs, errors.New("--session-recording-required needs --session-recording-dir"))
	}
	if o.Recording.MaxSize.Sign() < 0 || o.Recording.MinFree.Sign() < 0 {
		errs = append(errs, errors.New("--session-recording-max-size and --session-recording-min-free must not be negative"))
	}
	if o.Recording.Directory != "" {
		if info, err := os.Stat(o.Recording.Directory); err != nil {
			errs = append(errs, fmt.Errorf("--session-recording-dir: %w", err))
		} else if !info.IsDir() {
			errs = append(errs, fmt.Errorf("--session-recording-dir: %s is no directory", o.Recording.Directory))
		}
	}
	return errs
}

// Config turns the options into a configuration. etcdServers are the endpoints of
// the embedded etcd, empty when another one is used.
func (o *Options) Config(etcdServers []string) (*Config, error) {
	if len(etcdServers) > 0 {
		o.Recommended.Etcd.StorageConfig.Transport.ServerList = etcdServers
	}
	generic := genericapiserver.NewRecommendedConfig(Codecs)
	if err := o.Run.ApplyTo(&generic.Config); err != nil {
		return nil, fmt.Errorf("applying the server options: %w", err)
	}
	generic.LongRunningFunc = longRunningRequests
	namer := openapinamer.NewDefinitionNamer(Scheme)
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	generic.OpenAPIConfig.Info.Title = "Windows instances"
	generic.OpenAPIConfig.Info.Version = version.Version
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	generic.OpenAPIV3Config.Info.Title = "Windows instances"
	generic.OpenAPIV3Config.Info.Version = version.Version // kubectl windows version reads it: kube-apiserver passes on no other path that tells it
	if err := o.disableAbsentPolicies(generic); err != nil {
		return nil, err
	}
	if err := o.Recommended.ApplyTo(generic); err != nil {
		return nil, fmt.Errorf("applying the options: %w", err)
	}
	if behind := generic.Authorization.Authorizer; behind != nil {
		generic.Authorization.Authorizer = allObjectsAuthorizer{behind, o.ControllerUsers}
	}
	frontProxy := generic.Authentication.RequestHeaderConfig
	if frontProxy != nil {
		generic.AddReadyzChecks(frontProxyReady(frontProxy.CAContentProvider))
	}
	generic.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return genericapiserver.DefaultBuildHandlerChain(throughFrontProxy(frontProxy, windowsinstance.WithCut(handler)), c)
	}
	return &Config{Generic: generic, Extra: ExtraConfig{
		Options: windowsinstance.Options{
			Streams: limits.New(map[limits.Kind]limits.Limits{
				limits.Logs:        o.Streams,
				limits.Exec:        o.Sessions,
				limits.PortForward: o.Sessions,
				limits.Query:       o.Queries,
			}),
			Memory:           relief.New(),
			PortForwardPorts: o.PortForwardPorts,
			Recording:        o.Recording,
			Deleters:         base.Deleters{Controllers: o.ControllerUsers},
			MaxPerNamespace:  o.MaxPerNamespace,
		},
		DrainTimeout: o.DrainTimeout,
	}}, nil
}
