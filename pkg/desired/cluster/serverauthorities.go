// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"

	"k8s.io/client-go/util/cert"
)

// localhostSigners are the common names, before @ and a time, of the authorities by which nobody but a program on the same machine verifies an API
// server: that of its address of loopback, as the installer and then cluster-kube-apiserver-operator call it, and that of its recovery.
var localhostSigners = []string{
	"kube-apiserver-localhost-signer", "openshift-kube-apiserver-operator_localhost-serving-signer", "openshift-kube-apiserver-operator_localhost-recovery-serving-signer",
}

// serverAuthorities returns what hosts verify the API server with, of a bundle in PEM whose certificates can be used: each once, in an order of its own, and
// none of [localhostSigners], unless there are no others. Services restart for another text, so it is the same as long as it means the same
// to hosts: OpenShift combines the bundle of several, in any order, and those of localhost rotate at any time. See decision 34.
func serverAuthorities(bundle []byte) []byte {
	all, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return bundle // it is for others to find
	}
	slices.SortFunc(all, func(a, b *x509.Certificate) int { return bytes.Compare(a.Raw, b.Raw) })
	all = slices.CompactFunc(all, (*x509.Certificate).Equal)
	of := slices.DeleteFunc(slices.Clone(all), func(c *x509.Certificate) bool {
		name, _, _ := strings.Cut(c.Subject.CommonName, "@")
		return slices.Contains(localhostSigners, name)
	})
	if len(of) == 0 {
		of = all
	}
	var text []byte
	for _, c := range of {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw})...)
	}
	return text
}
