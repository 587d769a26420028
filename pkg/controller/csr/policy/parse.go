// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package policy

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
)

// pemType is the type of the PEM block of a request.
const pemType = "CERTIFICATE REQUEST"

// oidSubjectAltName is the extension that carries names and addresses (RFC 5280, 4.2.1.6).
var oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// Parse reads spec.request of a CSR: a PEM block, with text before it or not. The
// signature of the request is verified: it proves that whoever asks has the key.
func Parse(request []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(request)
	if block == nil {
		return nil, errors.New("the request has no PEM block")
	}
	if block.Type != pemType {
		return nil, fmt.Errorf("the PEM block of the request is a %q, not a %q", block.Type, pemType)
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the request: %w", err)
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, fmt.Errorf("verify the signature of the request: %w", err)
	}
	return parsed, nil
}

// Subject is that of the certificates of a node, which make their bearer that node.
func Subject(nodeName string) pkix.Name {
	return pkix.Name{CommonName: nodeUserPrefix + nodeName, Organization: []string{nodesGroup}}
}

// hasOtherNames says whether the request asks for names of a kind that Go does not
// parse, such as user principal names or directory names.
func hasOtherNames(request *x509.CertificateRequest) bool {
	known := len(request.DNSNames) + len(request.IPAddresses) + len(request.EmailAddresses) + len(request.URIs)
	for _, extension := range request.Extensions {
		if !extension.Id.Equal(oidSubjectAltName) {
			continue
		}
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(extension.Value, &names); err != nil || len(rest) > 0 {
			return true
		}
		known -= len(names)
	}
	return known != 0
}
