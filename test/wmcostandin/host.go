// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmcostandin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/agent/engine"
)

const (
	// port is the only one that WMCO connects to.
	port = "22"
	// dialTimeout is shorter than that of the real one, which tries for ten minutes.
	dialTimeout = 30 * time.Second
	// stopTimeout is for how long it waits until a service has stopped.
	stopTimeout = 2 * time.Minute
	// stopInterval is how often is looked whether a service has stopped.
	stopInterval = 20 * time.Millisecond
	// tag begins the description of each service of WMCO.
	tag = "OpenShift managed"
)

var (
	getOptions = metav1.GetOptions{}
	// errRefused means that a host accepts another key than WMCO's.
	errRefused = errors.New("the host refuses the key")
)

// Host is the stand-in for a host.
type Host struct {
	// System is the host as programs on it change it.
	System engine.System
	// Put puts on the host what WMCO leaves on one, and starts it.
	Put func() error
	// Name is that of its Node.
	Name string
}

// login logs in to a host as WMCO does: with its key alone, and only if the host proves to be the one that it has met.
func (o *Operator) login(ctx context.Context, a *Action, key *credentials) (Host, error) {
	expected, err := o.hostKey(ctx, a.Node, a.Address)
	if err != nil {
		return Host{}, err
	}
	var presented ssh.PublicKey
	config := &ssh.ClientConfig{
		User: a.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(key.signer)}, Timeout: dialTimeout,
		HostKeyCallback: func(_ string, _ net.Addr, has ssh.PublicKey) error {
			if expected != nil && !bytes.Equal(has.Marshal(), expected.Marshal()) {
				return errors.New("the host has another host key than it was met with")
			}
			presented = has
			return nil
		},
	}
	connection, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", net.JoinHostPort(a.Address, port))
	if err != nil {
		return Host{}, err
	}
	defer connection.Close()
	session, channels, requests, err := ssh.NewClientConn(connection, connection.RemoteAddr().String(), config)
	switch {
	case err != nil && strings.Contains(err.Error(), "unable to authenticate"):
		return Host{}, fmt.Errorf("%w: %w", errRefused, err)
	case err != nil:
		return Host{}, err
	}
	defer func() { _ = ssh.NewClient(session, channels, requests).Close() }()
	if expected == nil {
		if err := o.remember(ctx, a, &hostKey{presented}); err != nil {
			return Host{}, err
		}
	}
	return o.Host(a.Address)
}

// hostKey is a key in the formats of WMCO.
type hostKey struct{ ssh.PublicKey }

func (k *hostKey) encoded() string { return base64.StdEncoding.EncodeToString(k.Marshal()) }

// hostKey returns the key that a host was met with, on its Node or else in ConfigMap windows-ssh-host-keys. Nil: it was not met.
func (o *Operator) hostKey(ctx context.Context, node *corev1.Node, address string) (*hostKey, error) {
	value := ""
	if node != nil {
		value = node.Annotations[hostKeyName]
	}
	if value == "" {
		list := &corev1.ConfigMap{}
		if err := o.client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: hostKeysName}, list); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if value = list.Data[address]; value == "" {
			return nil, nil //nolint:nilnil // none is an ordinary answer
		}
	}
	wire, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return nil, fmt.Errorf("the host key of %s: %w", address, err)
	}
	key, err := ssh.ParsePublicKey(wire)
	if err != nil {
		return nil, fmt.Errorf("the host key of %s: %w", address, err)
	}
	return &hostKey{key}, nil
}

// remember records the key that a host was met with.
func (o *Operator) remember(ctx context.Context, a *Action, key *hostKey) error {
	if a.Node != nil {
		return o.change(ctx, a.Node, func(n *corev1.Node) {
			setAnnotation(n, hostKeyName, key.encoded())
			setAnnotation(n, hostKeyTypeName, key.Type())
		})
	}
	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: hostKeysName, Labels: map[string]string{"app.kubernetes.io/managed-by": deploymentName}}}
	if err := o.client.Create(ctx, list); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return o.client.Patch(ctx, list, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{%q:%q}}`, a.Address, key.encoded())))
}

// forgetHostKey removes the entry of a host that is a node, or is not any more.
func (o *Operator) forgetHostKey(ctx context.Context, address string) error {
	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: hostKeysName}}
	return client.IgnoreNotFound(o.client.Patch(ctx, list, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{%q:null}}`, address))))
}

// services are those that WMCO and its daemon make, those first that need others.
var services = []string{
	daemonName, "cloud-node-manager", "kube-proxy", "hybrid-overlay-node", "csi-proxy", "windows_exporter", "kubelet", "containerd",
}

// directories are those that WMCO removes, with all that is in them.
var directories = []string{`C:\Temp`, `C:\var\log`, `C:\k`, `C:\var\lib\cni`}

// networks are those of the Host Networking Service, and endpoint is in the last one.
var networks = []string{"BaseOVNKubernetesHybridOverlayNetwork", "OVNKubernetesHybridOverlayNetwork"}

const endpoint = "VIPEndpoint"

// watched are the variables of the machine that the daemon keeps as its own.
var watched = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}

// daemonCertificate is the newest certificate of the daemon.
const daemonCertificate = `C:\k\wicd-certs\wicd-client-current.pem`

// authenticate logs in to the cluster as what cleans a host does: with the certificate of the daemon if there is one, of which only the
// daemon makes sure that it is valid, and else with a token.
func (h Host) authenticate() error {
	certificate, err := h.System.Stat(daemonCertificate)
	if err != nil || certificate.Kind == engine.FileMissing {
		return err
	}
	if daemon, err := h.System.Service(daemonName); err != nil || daemon != nil {
		return err
	}
	return fmt.Errorf("the cluster refuses %s, which nobody has renewed", daemonCertificate)
}

// Clean removes all that WMCO and its daemon remove from a host that is none of theirs any more.
func (h Host) Clean(ctx context.Context) error {
	if err := h.stop(ctx); err != nil {
		return err
	}
	return h.clean(ctx)
}

// clean removes what WMCO removes besides: networks with what is in them, and directories.
func (h Host) clean(ctx context.Context) error {
	if err := h.System.RemoveHNSEndpoint(ctx, endpoint); err != nil {
		return err
	}
	for _, network := range networks {
		if err := h.System.RemoveHNSNetwork(ctx, network); err != nil {
			return err
		}
	}
	for _, directory := range directories {
		if err := h.removeAll(directory); err != nil {
			return err
		}
	}
	return nil
}

// stop removes what the daemon removes: services that are marked, itself among them, variables, and certificates that were imported.
func (h Host) stop(ctx context.Context) error {
	if err := h.authenticate(); err != nil {
		return err
	}
	for _, name := range services {
		s, err := h.System.Service(name)
		if err != nil {
			return err
		}
		if s == nil || !strings.HasPrefix(s.Settings.Description, tag) {
			continue
		}
		if err := h.System.StopService(name); err != nil {
			return err
		}
		if err := wait.PollUntilContextTimeout(ctx, stopInterval, stopTimeout, true, func(context.Context) (bool, error) {
			s, err := h.System.Service(name)
			return s == nil || s.State == engine.ServiceStopped, err
		}); err != nil {
			return fmt.Errorf("stopping service %s: %w", name, err)
		}
		if err := h.System.DeleteService(name); err != nil {
			return err
		}
	}
	for _, name := range watched {
		if err := h.System.SetEnvironment(name, nil); err != nil {
			return err
		}
	}
	return h.removeImported()
}

// removeImported removes the certificates that the daemon has on record as its own.
func (h Host) removeImported() error {
	file, err := h.System.Open(`C:\k\imported-certs.pem`)
	if err != nil {
		return nil // there need be none
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		sum := sha256.Sum256(block.Bytes)
		if err := h.System.RemoveCertificate("Root", hex.EncodeToString(sum[:])); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes a file, or a directory with all that is in it. WMCO has it removed again when it could not be, as when somebody has
// just put another file there.
func (h Host) removeAll(path string) error {
	const attempts = 5
	for n := 1; ; n++ {
		if err := h.removeOnce(path); n == attempts || !errors.Is(err, engine.ErrNotEmpty) {
			return err
		}
	}
}

func (h Host) removeOnce(path string) error {
	info, err := h.System.Stat(path)
	if err != nil || info.Kind == engine.FileMissing {
		return err
	}
	if info.Kind == engine.FileDirectory {
		names, err := h.System.Names(path)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(slices.Values(names)) {
			if err := h.removeOnce(path + `\` + name); err != nil {
				return err
			}
		}
	}
	return h.System.Remove(path)
}

// configure puts on a host what WMCO leaves on one, and returns the name of its Node.
func (h Host) configure(node *corev1.Node) (string, error) {
	if node != nil && node.Name != h.Name {
		return "", fmt.Errorf("the host is Node %s, and is to become %s", node.Name, h.Name)
	}
	return h.Name, h.Put()
}
