// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	theirs "golang.org/x/crypto/openpgp"           //nolint:staticcheck // it is what reads the annotation
	theirarmor "golang.org/x/crypto/openpgp/armor" //nolint:staticcheck // the same

	"github.com/openshift/windows-instance-api/pkg/wmco/takeover"
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
const writtenByWMCO = "wx4EBwMIMRM3glELpvRgfefUYeVWu8NxnDUDMS1gONvS5QG5m3DnvVmlHZueeMyF<wmcoMarker>" +
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
		{name: "written by WMCO", value: writtenByWMCO, key: passphrase, want: "core"},
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
			got, err := takeover.DecryptUsername(tt.value, []byte(tt.key))
			if got != tt.want || (err != nil) != tt.wantErr {
				t.Fatalf("got %q, %v, want %q, error %v", got, err, tt.want, tt.wantErr)
			}
			if err != nil && (strings.Contains(err.Error(), tt.key) || strings.Contains(err.Error(), "Administrator")) {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

// TestEncryptUsername reads what is written by the library of WMCO, as that does: it adds the armor lines, and puts newlines in the
// place of the markers.
func TestEncryptUsername(t *testing.T) {
	key := "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n"
	for _, user := range []string{"a", "Administrator", `EXAMPLE\svc-win`, "Jörg", strings.Repeat("x", 1024)} {
		value, err := takeover.EncryptUsername(user, []byte(key))
		if err != nil || strings.Contains(value, "\n") || strings.Contains(value, "-----") || strings.Contains(value, user+"<") {
			t.Fatalf("got %q, %v", value, err)
		}
		if got, err := takeover.DecryptUsername(value, []byte(key)); got != user || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, user)
		}
		full := "-----BEGIN ENCRYPTED DATA-----\n\n" + strings.ReplaceAll(value, "<wmcoMarker>", "\n") + "\n-----END ENCRYPTED DATA-----"
		block, err := theirarmor.Decode(strings.NewReader(full))
		if err != nil {
			t.Fatal(err)
		}
		asked := false
		message, err := theirs.ReadMessage(block.Body, nil, func([]theirs.Key, bool) ([]byte, error) {
			if asked {
				return nil, errors.New("it is another passphrase")
			}
			asked = true
			return []byte(key), nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := io.ReadAll(message.UnverifiedBody); string(plain) != user || err != nil {
			t.Errorf("the library of WMCO reads %q, %v, want %q", plain, err, user)
		}
	}
	for _, user := range []string{"", strings.Repeat("x", 1025)} {
		if value, err := takeover.EncryptUsername(user, []byte(key)); err == nil {
			t.Errorf("%q is %s", user, value)
		}
	}
}

func TestDecryptUsernameTampered(t *testing.T) {
	value := []byte(writtenByWMCO)
	// One character of the ciphertext, well behind the session key.
	at := bytes.Index(value, []byte("<wmcoMarker>")) + len("<wmcoMarker>") + 20
	if value[at]++; value[at] > 'z' {
		value[at] = 'a'
	}
	if got, err := takeover.DecryptUsername(string(value), []byte(passphrase)); err == nil {
		t.Errorf("got %q, want an error", got)
	}
}

// FuzzDecryptUsername reads anything as the annotation of a Node, which whoever may
// change Nodes writes: it is refused, or it is a name of a bounded length.
func FuzzDecryptUsername(f *testing.F) {
	for _, value := range []string{
		"", "wcwEBA==", "<wmcoMarker>", "-----BEGIN ENCRYPTED DATA-----\n\n=twTO\n-----END ENCRYPTED DATA-----",
		"wx4EBwMIzWcb8yDDWLlgLYhMoh5ZvlC9jzWzC9kX7+bS4AHk<wmcoMarker>=1MQB",
		"-----BEGIN PGP MESSAGE-----\n\nwx4=\n-----END PGP MESSAGE-----", strings.Repeat("A", 4096),
	} {
		f.Add(value, "key")
	}
	f.Add(writtenByWMCO, passphrase)
	f.Fuzz(func(t *testing.T, value, key string) {
		name, err := takeover.DecryptUsername(value, []byte(key))
		if err == nil && len(name) > 1024 {
			t.Errorf("a name of %d bytes", len(name))
		}
		if err != nil && name != "" {
			t.Errorf("refused, and told %q", name)
		}
		if err != nil && len(key) > 16 && !strings.Contains(value, key) && strings.Contains(err.Error(), key) {
			t.Errorf("the error %q tells the key", err)
		}
	})
}
