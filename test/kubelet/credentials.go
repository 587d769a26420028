// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/klog/v2"
)

// pollInterval is how often is looked for what nobody tells about.
const pollInterval = 50 * time.Millisecond

// credentials are how a kubelet comes to its certificates. They are in the same files, and
// under the same names, as those of a kubelet of Windows.
type credentials struct {
	drive
	*commandLine
	nodeName string
	dialer   *connrotation.Dialer
	logger   logr.Logger
}

func newCredentials(d drive, c *commandLine, nodeName string, logf func(string, ...any)) *credentials {
	return &credentials{
		drive: d, commandLine: c, nodeName: nodeName,
		dialer: connrotation.NewDialer((&net.Dialer{Timeout: 30 * time.Second}).DialContext),
		logger: funcr.New(func(prefix, args string) { logf("%s: %s", prefix, args) }, funcr.Options{}),
	}
}

// logging is a context whose logs are those of the kubelet.
func (c *credentials) logging(ctx context.Context) *context.Context {
	return new(klog.NewContext(ctx, c.logger))
}

// subject is whom the certificates of a node are for.
func (c *credentials) subject() pkix.Name {
	return pkix.Name{CommonName: "system:node:" + c.nodeName, Organization: []string{"system:nodes"}}
}

// connect returns a client that acts as the node. A kubelet without a certificate asks for one with
// that which it was given to bootstrap, and does nothing else with that: until it has its own it is nobody, see
// buildKubeletClientConfig of k8s.io/kubernetes/cmd/kubelet/app.
func (c *credentials) connect(ctx context.Context) (kubernetes.Interface, error) {
	certConfig, err := c.config()
	if err != nil {
		return nil, err
	}
	store, err := c.store("kubelet-client")
	if err != nil {
		return nil, err
	}
	options := &certificate.Config{
		Name: c.nodeName,
		ClientsetFn: func(*tls.Certificate) (kubernetes.Interface, error) {
			return kubernetes.NewForConfig(certConfig)
		},
		Template:         &x509.CertificateRequest{Subject: c.subject()},
		SignerName:       certificatesv1.KubeAPIServerClientKubeletSignerName,
		GetUsages:        certificate.DefaultKubeletClientGetUsages,
		CertificateStore: store,
		Ctx:              c.logging(ctx),
	}
	manager, err := certificate.NewManager(options)
	if err != nil {
		return nil, fmt.Errorf("the client certificate: %w", err)
	}
	manager.Start()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for manager.Current() == nil {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
	own, err := c.load(c.kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(own)
}

// config returns what a certificate is asked for with: the kubeconfig of the kubelet itself
// if there is a good certificate, or else that for the bootstrap. As soon as a kubelet asks,
// it writes its kubeconfig.
func (c *credentials) config() (*rest.Config, error) {
	own, err := c.load(c.kubeconfig)
	if err == nil && c.valid() {
		return own, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("unable to load the kubeconfig: %w", err)
	}
	if c.bootstrapKubeconfig == "" {
		return nil, errors.New("there is no kubeconfig, and no flag --bootstrap-kubeconfig")
	}
	bootstrap, err := c.load(c.bootstrapKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("unable to load the bootstrap kubeconfig: %w", err)
	}
	return bootstrap, c.writeKubeconfig()
}

// pemPath is the file of the host with the client certificate and its key.
func (c *credentials) pemPath() string {
	return strings.TrimRight(c.certDir, `\`) + `\kubelet-client-current.pem`
}

// valid says whether there is a client certificate that is good now.
func (c *credentials) valid() bool {
	pair, err := tls.LoadX509KeyPair(c.local(c.pemPath()), c.local(c.pemPath()))
	return err == nil && time.Now().Before(pair.Leaf.NotAfter)
}

// load reads a kubeconfig of the host, in which files have the paths of the host. A client
// certificate that is not there is left out.
func (c *credentials) load(path string) (*rest.Config, error) {
	text, err := c.read(path)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := clientcmd.Load(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// As data: files are looked at again and again, also when the kubelet has ended.
	for _, cluster := range kubeconfig.Clusters {
		if file := cluster.CertificateAuthority; file != "" {
			if cluster.CertificateAuthorityData, err = c.read(file); err != nil {
				return nil, fmt.Errorf("%s: unable to read certificate-authority: %w", path, err)
			}
			cluster.CertificateAuthority = ""
		}
	}
	for _, user := range kubeconfig.AuthInfos {
		c.inline(&user.ClientCertificateData, &user.ClientCertificate)
		c.inline(&user.ClientKeyData, &user.ClientKey)
	}
	config, err := clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	config.Dial = c.dialer.DialContext
	config.QPS, config.Burst = 50, 100
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config, nil
}

// inline has the content of a file of the host in the place of its path, if there is one.
func (c *credentials) inline(content *[]byte, path *string) {
	if *path != "" {
		*content, _ = c.read(*path) // a certificate that is not there is none
		*path = ""
	}
}

// writeKubeconfig writes the kubeconfig of the kubelet itself, which names the file of authorities if that which it was
// given does.
func (c *credentials) writeKubeconfig() error {
	const name = "default"
	path := c.local(c.kubeconfig)
	text, err := c.read(c.bootstrapKubeconfig)
	if err != nil {
		return err
	}
	bootstrap, err := clientcmd.Load(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.bootstrapKubeconfig, err)
	}
	given := bootstrap.Clusters[bootstrap.Contexts[bootstrap.CurrentContext].Cluster] // it was loaded before
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: given.Server, CertificateAuthority: given.CertificateAuthority, CertificateAuthorityData: given.CertificateAuthorityData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificate: c.pemPath(), ClientKey: c.pemPath()}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: name}},
		CurrentContext: name,
	})
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

// store keeps certificates of the host.
func (c *credentials) store(name string) (certificate.FileStore, error) {
	directory := c.local(c.certDir)
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	store, err := certificate.NewFileStoreWithLogger(c.logger.V(1), name, filepath.Clean(directory), filepath.Clean(directory), "", "")
	if err != nil {
		return nil, fmt.Errorf("the certificates in %s: %w", c.certDir, err)
	}
	return store, nil
}

// serve asks for the certificate that the kubelet serves with, and renews it until ctx ends.
func (c *credentials) serve(ctx context.Context, client kubernetes.Interface, address net.IP, hostname string) error {
	store, err := c.store("kubelet-server")
	if err != nil {
		return err
	}
	manager, err := certificate.NewManager(&certificate.Config{
		Name:        c.nodeName,
		ClientsetFn: func(*tls.Certificate) (kubernetes.Interface, error) { return client, nil },
		Template: &x509.CertificateRequest{
			Subject: c.subject(), DNSNames: []string{hostname}, IPAddresses: []net.IP{address},
		},
		SignerName:       certificatesv1.KubeletServingSignerName,
		GetUsages:        certificate.DefaultKubeletServingGetUsages,
		CertificateStore: store,
		Ctx:              c.logging(ctx),
	})
	if err != nil {
		return fmt.Errorf("the serving certificate: %w", err)
	}
	manager.Start()
	return nil
}
