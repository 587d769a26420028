// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apiserver"
	"github.com/openshift/windows-instance-api/pkg/apiserver/backend"
	"github.com/openshift/windows-instance-api/pkg/apiservice"
	"github.com/openshift/windows-instance-api/pkg/servingcert"
)

// registerInterval is between attempts to register the API.
const registerInterval = time.Second

// delegateInterval is between looks at who says what verifies the certificate, if that is for the service CA of OpenShift.
const delegateInterval = time.Minute

// serving is how kube-apiserver gets to the server: by an APIService, and a certificate.
type serving struct {
	kube      kubernetes.Interface
	cluster   dynamic.Interface
	namespace string
	// certificate is nil if it is given in files; then others know what verifies it, too.
	certificate *servingcert.Certificate
}

// newServing has the server serve the certificate that it makes, unless one is given.
func newServing(ctx context.Context, o *options, config *apiserver.Config, kube kubernetes.Interface, cluster dynamic.Interface) (*serving, error) {
	s := &serving{kube: kube, cluster: cluster, namespace: o.hosts.Namespace}
	if !o.server.OwnCertificate() {
		return s, nil
	}
	replica, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding out the name of this replica: %w", err)
	}
	s.certificate, err = servingcert.New(ctx, servingcert.Options{
		Kube: kube, Namespace: s.namespace, DNSName: apiservice.ServiceName + "." + s.namespace + ".svc", Replica: replica, Clock: clock.RealClock{},
		Trust: func(ctx context.Context, bundle []byte) (bool, error) {
			return apiservice.Trust(ctx, cluster, s.namespace, bundle)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making the serving certificate: %w", err)
	}
	config.Generic.SecureServing.Cert = s.certificate
	return s, nil
}

// registerWhenReady registers the API once the server answers: an API that nobody answers for keeps
// all namespaces of the cluster from ending. It is registered once, so that who uninstalls the server
// can end it.
func (s *serving) registerWhenReady(server *genericapiserver.GenericAPIServer, own rest.Interface) error {
	return server.AddPostStartHook("register-api", func(hook genericapiserver.PostStartHookContext) error {
		go func() {
			said := ""
			registered := func(ctx context.Context) (bool, error) {
				if err := own.Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
					return false, nil //nolint:nilerr // it is asked again
				}
				err := s.register(ctx)
				if err != nil && err.Error() != said {
					said = err.Error()
					klog.ErrorS(err, "Registering the API; trying again", "interval", registerInterval)
				}
				return err == nil, nil
			}
			if wait.PollUntilContextCancel(hook, registerInterval, true, registered) != nil || s.certificate != nil { // it fails only when the server stops
				return
			}
			wait.UntilWithContext(hook, func(ctx context.Context) {
				if err := apiservice.Delegate(ctx, s.cluster, s.namespace); err != nil && ctx.Err() == nil {
					klog.ErrorS(err, "Having the service CA verify the serving certificate; trying again", "interval", delegateInterval)
				}
			}, delegateInterval)
		}()
		return nil
	})
}

func (s *serving) register(ctx context.Context) error {
	deleted, err := backend.NamespaceDeleted(s.kube)(ctx, s.namespace)
	if err != nil {
		return err
	}
	if !deleted.IsZero() {
		return errors.New("namespace " + s.namespace + " is being deleted")
	}
	var bundle []byte
	if s.certificate != nil {
		bundle = s.certificate.Bundle()
	}
	return apiservice.Create(ctx, s.cluster, s.namespace, bundle)
}
