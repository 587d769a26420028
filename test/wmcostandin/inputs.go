// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package wmcostandin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/crypto/openpgp"       //nolint:staticcheck // WMCO uses it
	"golang.org/x/crypto/openpgp/armor" //nolint:staticcheck // the same
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	instancesName  = "windows-instances"
	hostKeysName   = "windows-ssh-host-keys"
	privateKeyName = "cloud-private-key"
	privateKeyData = "private-key.pem"
	armorType      = "ENCRYPTED DATA"
	newline        = "<wmcoMarker>"
)

// credentials are the key that WMCO has for all hosts.
type credentials struct {
	text   []byte
	signer ssh.Signer
}

func parseCredentials(text []byte) (*credentials, error) {
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	return &credentials{text: text, signer: signer}, nil
}

// Hash is the value of annotation pub-key-hash for a key.
func Hash(key ssh.PublicKey) string {
	sum := sha256.Sum256(bytes.TrimSpace(ssh.MarshalAuthorizedKey(key)))
	return hex.EncodeToString(sum[:])
}

// encrypt is the value of annotation username.
func (c *credentials) encrypt(user string) (string, error) {
	var text bytes.Buffer
	block, err := armor.Encode(&text, armorType, nil)
	if err != nil {
		return "", err
	}
	message, err := openpgp.SymmetricallyEncrypt(block, c.text, nil, nil)
	if err != nil {
		return "", err
	}
	if _, err := io.WriteString(message, user); err != nil {
		return "", err
	}
	if err := errors.Join(message.Close(), block.Close()); err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	return strings.ReplaceAll(strings.TrimSpace(strings.Join(lines[1:len(lines)-1], "\n")), "\n", newline), nil
}

// decrypt is the user in annotation username.
func (c *credentials) decrypt(value string) (string, error) {
	text := "-----BEGIN " + armorType + "-----\n\n" + strings.ReplaceAll(value, newline, "\n") + "\n-----END " + armorType + "-----"
	block, err := armor.Decode(strings.NewReader(text))
	if err != nil {
		return "", err
	}
	asked := false
	message, err := openpgp.ReadMessage(block.Body, nil, func([]openpgp.Key, bool) ([]byte, error) {
		if asked {
			return nil, errors.New("another key")
		}
		asked = true
		return c.text, nil
	}, nil)
	if err != nil {
		return "", err
	}
	user, err := io.ReadAll(message.UnverifiedBody)
	return string(user), err
}

// read reads all that WMCO decides by.
func (o *Operator) read(ctx context.Context) (*State, *credentials, error) {
	secret := &corev1.Secret{}
	if err := o.client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: privateKeyName}, secret); err != nil {
		return nil, nil, err
	}
	key, err := parseCredentials(secret.Data[privateKeyData])
	if err != nil {
		return nil, nil, err
	}
	s := &State{Version: o.Version, KeyHash: Hash(key.signer.PublicKey()), MachineUser: o.MachineUser}
	var machines machinev1beta1.MachineList
	var nodes corev1.NodeList
	if err := errors.Join(o.client.List(ctx, &machines), o.client.List(ctx, &nodes)); err != nil {
		return nil, nil, err
	}
	s.Machines, s.Nodes = machines.Items, nodes.Items
	list := &corev1.ConfigMap{}
	if err := o.client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: instancesName}, list); err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, err
	}
	if s.UserDataDiffers, err = o.userDataDiffers(ctx, key); err != nil {
		return nil, nil, err
	}
	s.Entries, s.Names, err = parseEntries(ctx, list.Data)
	return s, key, err
}

// parseEntries reads ConfigMap windows-instances, for [State.Entries] and [State.Names]. One entry that is wrong keeps WMCO from all of them.
func parseEntries(ctx context.Context, data map[string]string) (entries, names map[string]string, err error) {
	entries, names = map[string]string{}, map[string]string{}
	for key, value := range data {
		addresses, err := (&net.Resolver{}).LookupIP(ctx, "ip4", key)
		if err != nil {
			return nil, nil, fmt.Errorf("entry %s: %w", key, err)
		}
		name, user, _ := strings.Cut(value, "=") // all that follows is the user
		if name != "username" || user == "" {
			return nil, nil, fmt.Errorf("entry %s does not have username=", key)
		}
		address := addresses[0].String()
		entries[address] = user
		if key != address {
			names[address] = key
		}
	}
	return entries, names, nil
}
