// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // Windows names certificates by it
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// Where things are on the host. The names are nobody else's.
const (
	directory  = `C:\k\conformance`
	secrets    = directory + `\secrets`
	secretPath = secrets + `\token`
	configPath = directory + `\service.conf`
	// theirsPath was there before, with another content.
	theirsPath = directory + `\theirs.conf`
	// otherPath is nothing of ours.
	otherPath = directory + `\other.txt`
	// programPath has a space, as programs of Windows have.
	programName = "conformance service.exe"
	programPath = directory + `\` + programName

	logDirectory = `C:\var\log\conformance`

	// slowPath is a program that is starting for as long as holdPath exists.
	slowPath = directory + `\slow service.exe`
	holdPath = directory + `\hold`

	serviceBase  = "conformance-base"
	serviceAbove = "conformance-above"
	serviceSlow  = "conformance-slow"
	startedBase  = logDirectory + `\base`
	startedAbove = logDirectory + `\above`
	logAbove     = startedAbove + ".log"

	// generatedDirectory is made by programs.
	generatedDirectory = directory + `\generated`
	protectedDirectory = generatedDirectory + `\protected`
	protectedPath      = protectedDirectory + `\file`

	// variable is what test/winhost/winservice writes down when it starts.
	variable = "WINSERVICE"

	firewallRule = "windows-node-agent-conformance"
)

// Keys of the registry below HKEY_LOCAL_MACHINE.
const (
	keyEnvironment  = `SYSTEM\CurrentControlSet\Control\Session Manager\Environment`
	keyServices     = `SYSTEM\CurrentControlSet\Services\`
	keyCertificates = `SOFTWARE\Microsoft\SystemCertificates\ROOT\Certificates\`
	keyExclusions   = `SOFTWARE\Policies\Microsoft\Windows Defender\Exclusions\Processes`
)

// recoveryDelays are in milliseconds, and resetAfter is in seconds, as Windows has them.
var recoveryDelays = []int64{1000, 2000}

const resetAfter = 300

func none() config.OnChange { return config.OnChange{Impact: config.ImpactNone} }

func restarts(services ...string) config.OnChange {
	return config.OnChange{Impact: config.ImpactRestart, Services: services}
}

// program makes a file of the payload. Without services it is replaced while it runs.
func (h *Host) program(path string, content []byte, onChange config.OnChange) config.File {
	digest := config.Digest(content)
	h.payload[digest] = content
	return config.File{
		Path: path, Role: config.RoleProgram, Source: config.Source{Payload: path, Size: int64(len(content))},
		Digest: digest, OnChange: onChange,
	}
}

func text(path, content string, onChange config.OnChange) config.File {
	return config.File{
		Path: path, Role: config.RoleConfiguration, Source: config.Source{Text: &content},
		Digest: config.Digest([]byte(content)), OnChange: onChange,
	}
}

func service(name, binary string, arguments, dependencies []string) config.Service {
	return config.Service{
		Name: name, Description: config.Description(name), BinaryPath: binary, Arguments: arguments, Dependencies: dependencies,
		StartType: config.StartAutomatic, OnChange: restarts(name),
		Recovery: &config.Recovery{ResetAfterSeconds: resetAfter, RestartDelaysMilliseconds: recoveryDelays},
	}
}

// newCertificate makes an authority that nobody has the key of.
func newCertificate() (config.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return config.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().Unix()), Subject: pkix.Name{CommonName: "windows-node-agent conformance"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return config.Certificate{}, err
	}
	sum := sha256.Sum256(der)
	return config.Certificate{
		Store: config.StoreRoot, Fingerprint: hex.EncodeToString(sum[:]), OnChange: none(),
		PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	}, nil
}

// thumbprint is the name of a certificate in the registry.
func thumbprint(c config.Certificate) string {
	block, _ := pem.Decode([]byte(c.PEM))
	sum := sha1.Sum(block.Bytes)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// secretContent is what must be on the host and nowhere else.
const secretContent = "a secret"

// document is what the host is configured with first. It has no more than what needs no
// restart of the host.
func (h *Host) document() (config.Bundle, error) {
	certificate, err := newCertificate()
	if err != nil {
		return config.Bundle{}, err
	}
	return config.Bundle{
		Document: config.Document{
			Version: config.SchemaVersion,
			Directories: []config.Directory{
				{Path: directory, Access: config.AccessAdministratorsWrite}, {Path: secrets, Access: config.AccessAdministrators}, {Path: logDirectory},
			},
			Files: []config.File{
				h.program(programPath, h.Service, restarts(serviceBase, serviceAbove)),
				text(configPath, "one", restarts(serviceBase)),
				text(theirsPath, "ours", none()),
				{
					Path: secretPath, Role: config.RoleCredential, Source: config.Source{Secret: "token"}, Access: config.AccessAdministrators,
					Digest: "hmac-sha256:" + strings.Repeat("0", 64), OnChange: none(),
				},
			},
			Generated:           []string{generatedDirectory},
			Environment:         []config.EnvironmentVariable{{Name: variable, Value: "one", OnChange: none()}},
			Certificates:        []config.Certificate{certificate},
			AntivirusExclusions: []string{programPath},
			Services: []config.Service{
				service(serviceBase, programPath, []string{startedBase, "first"}, nil),
				service(serviceAbove, programPath, []string{startedAbove, `with "quotes" and \`}, []string{serviceBase}),
			},
		},
		Secrets: config.Secrets{"token": []byte(secretContent)},
	}, nil
}

// changed returns the bundle of the host with a change, and leaves the one it has alone.
func (h *Host) changed(change func(d *config.Document)) config.Bundle {
	b := h.bundle
	d := &b.Document
	d.Files, d.Services, d.Environment = slices.Clone(d.Files), slices.Clone(d.Services), slices.Clone(d.Environment)
	change(d)
	return b
}

// setFile replaces the file with the path of f, or adds it.
func setFile(d *config.Document, f config.File) {
	if i := slices.IndexFunc(d.Files, func(g config.File) bool { return g.Path == f.Path }); i >= 0 {
		d.Files[i] = f
		return
	}
	d.Files = append(d.Files, f)
}
