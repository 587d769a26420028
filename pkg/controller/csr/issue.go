// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package csr

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/controller/csr/identity"
	policy "github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
	"github.com/openshift/windows-instance-api/pkg/desired/cluster"
)

const (
	// joinLifetime is for how long a host may join with what it was given. When half of it is over it is
	// given another one: the host may have restarted meanwhile.
	joinLifetime = time.Hour
	// signerPatience is how long the signer of the cluster gets. When kube-controller-manager dies with its machine, another one leads after
	// 137 seconds on OpenShift (its leader election has a lease of that length), and signs what has come meanwhile.
	signerPatience = 3 * time.Minute
	// reasonJoins is the reason of the approval.
	reasonJoins = "HostJoins"
)

// Issuer issues the certificates with which hosts join. It is safe for concurrent use, and
// hosts do not wait for each other.
type Issuer struct {
	hosts

	kube  kubernetes.Interface
	clock clock.Clock

	mu sync.Mutex // guards issued
	// issued are credentials by the UID of the instance that got them.
	issued map[types.UID]issued
}

// issued is what a host was given.
type issued struct {
	nodeName string
	// until is when it gets another one.
	until time.Time
	*cluster.Credentials
}

var _ cluster.Issuer = (*Issuer)(nil)

// NewIssuer returns an Issuer. Reader is the cache of a manager, namespace that of the operator.
//
// RBAC it needs besides that of the controller:
//
//	certificates.k8s.io   certificatesigningrequests           create
func NewIssuer(reader client.Client, kube kubernetes.Interface, namespace string) *Issuer {
	return &Issuer{hosts: newHosts(reader, namespace), kube: kube, clock: clock.RealClock{}, issued: map[types.UID]issued{}}
}

// Issue returns a client certificate of the node that the host of an instance says it will be. It
// requests and approves it itself, for no longer than a host needs to join: with it the kubelet asks for the one that
// it keeps, as that node. See [cluster.Issuer].
func (i *Issuer) Issue(ctx context.Context, instance *v1alpha1.WindowsInstance, nodeName string) (*cluster.Credentials, error) {
	if known := i.known(instance.UID, nodeName); known != nil {
		return known, nil
	}
	for {
		err := i.admit(ctx, instance, nodeName)
		if err == nil {
			break
		}
		if !errors.Is(err, identity.ErrLookingUp) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-i.clock.After(identity.RetryLookup):
		}
	}
	credentials, until, err := i.request(ctx, instance, nodeName)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.issued[instance.UID] = issued{nodeName, until, credentials}
	return credentials, nil
}

// known returns what the host was given lately, nil if that is nothing any more.
func (i *Issuer) known(uid types.UID, nodeName string) *cluster.Credentials {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.clock.Now()
	maps.DeleteFunc(i.issued, func(_ types.UID, had issued) bool { return !now.Before(had.until) })
	if had := i.issued[uid]; had.nodeName == nodeName {
		return had.Credentials
	}
	return nil
}

// request requests a certificate, approves it, and waits until it is signed.
func (i *Issuer) request(ctx context.Context, instance *v1alpha1.WindowsInstance, nodeName string) (_ *cluster.Credentials, until time.Time, _ error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, until, err
	}
	encodedKey, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, until, err
	}
	subject := policy.Subject(nodeName)
	encoded, err := cert.MakeCSR(key, &subject, nil, nil)
	if err != nil {
		return nil, until, err
	}
	requests := i.kube.CertificatesV1().CertificateSigningRequests()
	request, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "windows-instance-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: encoded, SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			ExpirationSeconds: csr.DurationToExpirationSeconds(joinLifetime),
			Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, until, fmt.Errorf("requesting it: %w", err)
	}
	name := request.Name
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reasonJoins,
		Message:        fmt.Sprintf("WindowsInstance %s joins the cluster with it, as Node %s.", client.ObjectKeyFromObject(instance), nodeName),
		LastUpdateTime: metav1.NewTime(i.clock.Now()),
	})
	if _, err := requests.UpdateApproval(ctx, name, request, metav1.UpdateOptions{}); err != nil {
		return nil, until, fmt.Errorf("approving CertificateSigningRequest %s: %w", name, err)
	}
	bounded, cancel := context.WithTimeout(ctx, signerPatience)
	defer cancel()
	certificate, err := csr.WaitForCertificate(bounded, i.kube, name, request.UID)
	switch {
	case ctx.Err() != nil:
		return nil, until, context.Cause(ctx)
	case bounded.Err() != nil:
		return nil, until, fmt.Errorf("CertificateSigningRequest %s is approved and was not signed within %s: see whether kube-controller-manager runs, and signs for kubelets (--cluster-signing-cert-file)", name, duration.HumanDuration(signerPatience))
	case err != nil:
		return nil, until, fmt.Errorf("CertificateSigningRequest %s: %w", name, err)
	}
	chain, err := cert.ParseCertsPEM(certificate)
	if err != nil {
		return nil, until, fmt.Errorf("the certificate of CertificateSigningRequest %s: %w", name, err)
	}
	log.FromContext(ctx).Info("Certificate to join with issued", "csr", name, "node", nodeName, "expires", chain[0].NotAfter)
	now := i.clock.Now()
	return &cluster.Credentials{Certificate: certificate, Key: encodedKey}, now.Add(chain[0].NotAfter.Sub(now) / 2), nil
}
