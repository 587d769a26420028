// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmco_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	configv1 "github.com/openshift/api/config/v1"
	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

const passphrase = "Super secr3t!"

// encrypt returns the full armor of a message as old versions of WMCO wrote it.
func encrypt(t *testing.T, plain, passphrase, armorType string) string {
	t.Helper()
	var out bytes.Buffer
	block, err := armor.Encode(&out, armorType, nil)
	if err != nil {
		t.Fatal(err)
	}
	message, err := openpgp.SymmetricallyEncrypt(block, []byte(passphrase), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := message.Write([]byte(plain)); err != nil {
		t.Fatal(err)
	}
	if err := message.Close(); err != nil {
		t.Fatal(err)
	}
	if err := block.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// strip turns full armor into the current form of the annotation.
func strip(full string) string {
	lines := strings.Split(strings.TrimSpace(full), "\n")
	body := strings.TrimSpace(strings.Join(lines[1:len(lines)-1], "\n"))
	return strings.ReplaceAll(body, "\n", "<wmcoMarker>")
}

// A value that WMCO itself wrote: its user is core.
const writtenByPeer = "wx4EBwMIMRM3glELpvRgfefUYeVWu8NxnDUDMS1gONvS5QG5m3DnvVmlHZueeMyF<wmcoMarker>" +
	"O6mcZTHzhiffkHBZu7QENycz5CTbMWdzbSBxz9jLousa0XfiGcPtKOGXHOAyAA==<wmcoMarker>=7qAp"

func TestDecryptUsername(t *testing.T) {
	full := encrypt(t, "Administrator", passphrase, "ENCRYPTED DATA")
	stripped := strip(full)
	tests := []struct {
		name    string
		value   string
		key     string
		wantErr bool
		want    string
	}{
		{name: "written by the peer", value: writtenByPeer, key: passphrase, want: "core"},
		{name: "current form", value: stripped, key: passphrase, want: "Administrator"},
		{name: "full armor", value: full, key: passphrase, want: "Administrator"},
		{name: "full armor with markers", value: strings.ReplaceAll(full, "\n", "<wmcoMarker>"), key: passphrase, want: "Administrator"},
		{name: "domain user", value: strip(encrypt(t, `EXAMPLE\svc-win`, passphrase, "ENCRYPTED DATA")), key: passphrase, want: `EXAMPLE\svc-win`},
		{name: "another key", value: stripped, key: "wr0ng k3y", wantErr: true},
		{name: "another type of block", value: encrypt(t, "core", passphrase, "PGP MESSAGE"), key: passphrase, wantErr: true},
		{name: "cut off", value: stripped[:len(stripped)/2], key: passphrase, wantErr: true},
		{name: "empty", value: "", key: passphrase, wantErr: true},
		{name: "plain text", value: "Administrator", key: passphrase, wantErr: true},
		{name: "no user name is that long", value: strip(encrypt(t, strings.Repeat("x", 4096), passphrase, "ENCRYPTED DATA")), key: passphrase, wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wmco.DecryptUsername(tt.value, []byte(tt.key))
			if got != tt.want || (err != nil) != tt.wantErr {
				t.Fatalf("got %q, %v, want %q, error %v", got, err, tt.want, tt.wantErr)
			}
			if err != nil && (strings.Contains(err.Error(), tt.key) || strings.Contains(err.Error(), "Administrator")) {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

func TestDecryptUsernameTampered(t *testing.T) {
	value := []byte(writtenByPeer)
	// One character of the ciphertext, well behind the session key.
	at := bytes.Index(value, []byte("<wmcoMarker>")) + len("<wmcoMarker>") + 20
	if value[at]++; value[at] > 'z' {
		value[at] = 'a'
	}
	if got, err := wmco.DecryptUsername(string(value), []byte(passphrase)); err == nil {
		t.Errorf("got %q, want an error", got)
	}
}

func TestPublicKeyHash(t *testing.T) {
	const line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE4qJS2mKXYrE7qkYBHcGu2D0pVxLeHg8Gc8dOQ5vGvN"
	const want = "01eba3acce87064dc39d873ab90266348ba3ce68b2bcfb915f8ec5f9b4fa17df"
	for _, text := range []string{line, line + " core@example.com", line + "\n"} {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := wmco.PublicKeyHash(key); got != want {
			t.Errorf("PublicKeyHash(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestPlatform(t *testing.T) {
	tests := []struct {
		platform configv1.PlatformType
		username string
		renames  bool
		limit    int
		hostname wmco.HostnameSource
	}{
		{platform: configv1.AWSPlatformType, username: "Administrator", hostname: wmco.HostnameOfMetadata},
		{platform: configv1.AzurePlatformType, username: "capi", limit: 15},
		{platform: configv1.GCPPlatformType, username: "Administrator", hostname: wmco.HostnameOfGCP},
		{platform: configv1.VSpherePlatformType, username: "Administrator", renames: true, limit: 15, hostname: wmco.HostnameOfFQDN},
		{platform: configv1.NutanixPlatformType, username: "Administrator", renames: true},
		{platform: configv1.NonePlatformType, username: "Administrator"},
	}
	for _, tt := range tests {
		t.Run(string(tt.platform), func(t *testing.T) {
			if got := wmco.MachineUsername(tt.platform); got != tt.username {
				t.Errorf("MachineUsername = %q, want %q", got, tt.username)
			}
			if got := wmco.RenamesComputer(tt.platform); got != tt.renames {
				t.Errorf("RenamesComputer = %v, want %v", got, tt.renames)
			}
			if got := wmco.MachineNameLimit(tt.platform); got != tt.limit {
				t.Errorf("MachineNameLimit = %d, want %d", got, tt.limit)
			}
			if got := wmco.KubeletHostname(tt.platform); got != tt.hostname {
				t.Errorf("KubeletHostname = %q, want %q", got, tt.hostname)
			}
		})
	}
}

func TestGCPHostname(t *testing.T) {
	long := strings.Repeat("d", 60)
	tests := []struct {
		name string
		fqdn string
		want string
	}{
		{name: "fits", fqdn: "win-1.c.example.internal", want: "win-1.c.example.internal"},
		{name: "just fits", fqdn: strings.Repeat("a", 63), want: strings.Repeat("a", 63)},
		{name: "too long with a short host name", fqdn: "win-1." + long, want: "win-1"},
		{name: "host name just fits", fqdn: strings.Repeat("a", 63) + "." + long, want: strings.Repeat("a", 63)},
		{name: "host name too long", fqdn: strings.Repeat("a", 64) + "." + long, want: strings.Repeat("a", 63)},
		{name: "no dot", fqdn: strings.Repeat("a", 70), want: strings.Repeat("a", 63)},
		{name: "begins with a dot", fqdn: "." + strings.Repeat("a", 70), want: "." + strings.Repeat("a", 62)},
		{name: "empty", fqdn: "", want: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := wmco.GCPHostname(tt.fqdn); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWindowsBuild(t *testing.T) {
	if got, err := wmco.WindowsBuild("2022"); got != "10.0.20348" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := wmco.WindowsBuild("2016"); err == nil {
		t.Errorf("got %q for a release that is not supported, want an error", got)
	}
}

func TestStateOfNode(t *testing.T) {
	tests := []struct {
		name        string
		annotations map[string]string
		want        wmco.NodeState
	}{
		{name: "no annotations", want: wmco.NodeUnconfigured},
		{name: "another annotation", annotations: map[string]string{"wrong": "11.0.0"}, want: wmco.NodeUnconfigured},
		{name: "cleared", annotations: map[string]string{wmco.VersionAnnotation: ""}, want: wmco.NodeUnconfigured},
		{name: "another version", annotations: map[string]string{wmco.VersionAnnotation: "10.19.0"}, want: wmco.NodeOutdated},
		{name: "the version", annotations: map[string]string{wmco.VersionAnnotation: "11.0.0"}, want: wmco.NodeUpToDate},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := wmco.StateOfNode(tt.annotations, "11.0.0"); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
