// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package engine

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// Who a node is to the API server.
const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

// maxComputerName is where Windows cuts the name of a computer, in bytes.
const maxComputerName = 15

// kubeletCredentials are what the kubelet of a host knows itself by.
type kubeletCredentials struct {
	api.KubeletCertificate
	// useless are paths of files that exist and that keep the kubelet from using the credentials
	// that it is given to join.
	useless []string
}

// credentialRules is what the credentials of a kubelet are compared with.
type credentialRules struct {
	// clientCAs and serverCAs are certificates in PEM; the latter are in the file serverCAFile.
	clientCAs, serverCAs, serverCAFile string
	// node is the name of the node. Empty: it is not known.
	node string
	// cut: the name of the computer may be the beginning of the name of the node.
	cut bool
	now time.Time
}

// credentials judges the credentials of the kubelet by a document. Nil: the document says nothing
// of them. values are those of the variables, as far as they are known.
func credentials(s System, d *config.Document, hostname string, values map[string]string, now time.Time) (*kubeletCredentials, error) {
	c := d.ClientCertificate
	if c == nil {
		return nil, nil //nolint:nilnil // no certificate is an ordinary answer
	}
	rules := credentialRules{node: hostname, cut: len(hostname) >= maxComputerName, now: now}
	if c.NodeName != "" {
		rules.node, rules.cut = "", false
		if missingValue(values, c.NodeName) == "" {
			var err error
			if rules.node, err = config.Expand(c.NodeName, values); err != nil {
				return nil, err
			}
		}
	}
	rules.clientCAs, _ = d.Text(c.CAFile)
	rules.serverCAs, _ = d.Text(c.ServerCAFile)
	rules.serverCAFile = c.ServerCAFile
	certificate, certificateExists, err := readIfExists(s, c.Path)
	if err != nil {
		return nil, err
	}
	defer clear(certificate) // the key is in it
	kubeconfig, kubeconfigExists, err := readIfExists(s, c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	found := &kubeletCredentials{KubeletCertificate: rules.judge(certificate)}
	if found.Problem != "" && certificateExists {
		found.useless = append(found.useless, c.Path)
	}
	// A kubeconfig without its certificate is no obstacle: a kubelet that joins writes it first.
	switch other := !rules.trusts(kubeconfig); {
	case other && kubeconfigExists:
		found.useless = append(found.useless, c.Kubeconfig)
		if found.Problem == "" {
			found.Problem = api.CertificateOtherServer
		}
	case other && found.Problem == "":
		found.Problem = api.CertificateMissing
	}
	return found, nil
}

// readIfExists reads a file, through a link. A link that leads nowhere exists and has no content.
func readIfExists(s System, path string) (content []byte, exists bool, err error) {
	info, err := s.Stat(path)
	if err == nil && info.Kind != FileMissing {
		exists = true
		if content, err = readFile(s, path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return nil, exists, fmt.Errorf("read the credentials of the kubelet: %w", err)
	}
	return content, exists, nil
}

// nodeName returns what the kubelet of a document will call its node: what it is told, or else the
// name that the host gets or has (GetHostname in k8s.io/component-helpers/node/util). Empty: that is not
// known yet.
func (o *observer) nodeName(ctx context.Context, d *config.Document, values map[string]string) (string, error) {
	c := d.ClientCertificate
	switch {
	case c == nil:
		return "", nil
	case c.NodeName != "" && missingValue(values, c.NodeName) != "":
		return "", nil
	case c.NodeName != "":
		name, err := config.Expand(c.NodeName, values)
		return strings.ToLower(strings.TrimSpace(name)), err
	case d.Hostname != "":
		return strings.ToLower(d.Hostname), nil
	}
	name, err := o.system.Value(ctx, config.Variable{Source: config.SourceHostname})
	if err != nil {
		return "", fmt.Errorf("read the host name: %w", err)
	}
	return strings.ToLower(strings.TrimSpace(name)), nil
}

// judge says what is wrong with the content of the file of a certificate, and what it is of.
// A certificate that is not valid yet is good: the clock of the host is behind, which its issuer
// allows for.
func (r credentialRules) judge(content []byte) (c api.KubeletCertificate) {
	if len(content) == 0 {
		c.Problem = api.CertificateMissing
		return c
	}
	pair, err := tls.X509KeyPair(content, content)
	if err != nil {
		c.Problem = api.CertificateUnreadable
		return c
	}
	leaf := pair.Leaf
	c.Subject, c.Issuer, c.NotAfter = leaf.Subject.CommonName, leaf.Issuer.String(), leaf.NotAfter
	name, isNode := strings.CutPrefix(leaf.Subject.CommonName, nodeUserPrefix)
	switch {
	case !isNode || !slices.Contains(leaf.Subject.Organization, nodesGroup) || !r.isNode(name):
		c.Problem = api.CertificateOtherNode
	case r.now.After(leaf.NotAfter):
		c.Problem = api.CertificateExpired
	case !r.issued(pair):
		c.Problem = api.CertificateOtherIssuer
	}
	return c
}

// isNode reports whether a name is that of the node.
func (r credentialRules) isNode(name string) bool {
	switch {
	case r.node == "" || strings.EqualFold(name, r.node):
		return true
	case r.cut && len(name) > len(r.node):
		return strings.EqualFold(name[:len(r.node)], r.node)
	}
	return false
}

// issued reports whether one of the authorities has issued a certificate. If none of them can be
// read, that is not known and the certificate is good.
func (r credentialRules) issued(pair tls.Certificate) bool {
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(r.clientCAs)) {
		return true
	}
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			others.AddCert(c)
		}
	}
	at := r.now
	if at.Before(pair.Leaf.NotBefore) {
		at = pair.Leaf.NotBefore
	}
	_, err := pair.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: others, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}

// trusts reports whether a kubeconfig has the authorities of the API server: a kubelet writes
// there what it was given to join with, which is the name of their file. Earlier releases gave it the authorities.
func (r credentialRules) trusts(kubeconfig []byte) bool {
	return bytes.Contains(kubeconfig, []byte(r.serverCAFile)) || bytes.Contains(kubeconfig, []byte(base64.StdEncoding.EncodeToString([]byte(r.serverCAs))))
}

// uselessCredentials plans to remove what keeps the kubelet from joining with the credentials in
// f. The kubelet would replace them itself, but for those that look good to it.
func (p *planner) uselessCredentials(f config.File) {
	if !p.joinsWith(f) {
		return
	}
	for _, path := range p.seen.credentials.useless {
		p.add(step{}, api.ActionDelete, api.KindFile, path, p.seen.credentials.String(), f.OnChange)
	}
}

// joinsWith reports whether the kubelet joins with the credentials in f.
func (p *planner) joinsWith(f config.File) bool {
	c := p.bundle.Document.ClientCertificate
	return c != nil && f.UntilFile != "" && strings.EqualFold(f.UntilFile, c.Path)
}
