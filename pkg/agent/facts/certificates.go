// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package facts

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// Limits of what is read. Real files have some kilobytes and one certificate, a bundle of
// certificate authorities some more.
const (
	maxCertificateFile  = 1 << 20
	maxCertificates     = 100
	maxCertificatesEach = 20
)

// Certificates adds the certificates in the files that the patterns of
// [filepath.Glob] match to the facts. A file that cannot be read costs only its own.
func Certificates(f *api.Facts, patterns []string) {
	for _, pattern := range patterns {
		// The patterns are ours, and that is all that Glob complains about.
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if len(f.Certificates) >= maxCertificates {
				f.AddError("certificates", fmt.Errorf("there are more than %d", maxCertificates))
				return
			}
			f.Collect("certificates/"+file, func() error {
				list, err := certificatesOf(file)
				f.Certificates = append(f.Certificates, list...)
				return err
			})
		}
	}
}

func certificatesOf(file string) ([]api.Certificate, error) {
	in, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // renamed meanwhile, as when a certificate is rotated
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	rest, err := io.ReadAll(io.LimitReader(in, maxCertificateFile))
	defer clear(rest) // there may be a key in it
	if err != nil {
		return nil, err
	}
	return parseCertificates(file, rest)
}

// parseCertificates passes over everything that is no certificate.
func parseCertificates(file string, rest []byte) ([]api.Certificate, error) {
	var list []api.Certificate
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			clear(block.Bytes)
			continue
		}
		if len(list) == maxCertificatesEach {
			return list, fmt.Errorf("it holds more than %d certificates", maxCertificatesEach)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return list, fmt.Errorf("reading certificate %d: %w", len(list)+1, err)
		}
		list = append(list, api.Certificate{
			Path: file, Subject: c.Subject.String(), Issuer: c.Issuer.String(), NotBefore: c.NotBefore, NotAfter: c.NotAfter,
		})
	}
	if len(list) == 0 && len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("it holds no certificate")
	}
	return list, nil
}
