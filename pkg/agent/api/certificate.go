// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package api

import (
	"fmt"
	"time"
)

// CertificateProblem is why the kubelet of a host cannot use its client certificate.
type CertificateProblem string

// Problems. Empty: there is none.
const (
	// CertificateMissing: the file with the certificate, or the kubeconfig that names it, does
	// not exist.
	CertificateMissing CertificateProblem = "Missing"
	// CertificateUnreadable: the file has no certificate with its key.
	CertificateUnreadable CertificateProblem = "Unreadable"
	// CertificateExpired: it has expired by the clock of the host.
	CertificateExpired CertificateProblem = "Expired"
	// CertificateOtherNode: it is not that of a node with the name of the host.
	CertificateOtherNode CertificateProblem = "OtherNode"
	// CertificateOtherIssuer: no authority that the API server verifies its clients with has
	// issued it.
	CertificateOtherIssuer CertificateProblem = "OtherIssuer"
	// CertificateOtherServer: the kubeconfig does not trust the authorities of the API server.
	CertificateOtherServer CertificateProblem = "OtherServer"
)

// KubeletCertificate is what a host says of the client certificate of its kubelet.
type KubeletCertificate struct {
	// Problem is why the kubelet cannot use it. Empty: it can.
	Problem CertificateProblem `json:"problem,omitempty"`
	// Subject is the common name of whom it is for, Issuer who issued it, and NotAfter when it
	// expires. Empty: it could not be read.
	Subject  string    `json:"subject,omitempty"`
	Issuer   string    `json:"issuer,omitempty"`
	NotAfter time.Time `json:"notAfter,omitzero"`
}

// Useless reports whether the kubelet has to join the cluster again. c may be nil, when nothing
// is known.
func (c *KubeletCertificate) Useless() bool { return c != nil && c.Problem != "" }

// String says what is wrong, as a part of a sentence.
func (c *KubeletCertificate) String() string {
	const what = "the client certificate of the kubelet "
	switch c.Problem {
	case "":
		return what + "is good"
	case CertificateMissing:
		return what + "does not exist"
	case CertificateUnreadable:
		return what + "is damaged"
	case CertificateExpired:
		return fmt.Sprintf(what+"expired at %s by the clock of the host", c.NotAfter.UTC().Format(time.RFC3339))
	case CertificateOtherNode:
		return fmt.Sprintf(what+"is that of %q, which is not this host", c.Subject)
	case CertificateOtherIssuer:
		return fmt.Sprintf(what+"was issued by %q, which is not an authority of this cluster", c.Issuer)
	case CertificateOtherServer:
		return "the kubeconfig of the kubelet does not have the authorities of the API server"
	}
	return fmt.Sprintf(what+"cannot be used (%s)", c.Problem)
}
