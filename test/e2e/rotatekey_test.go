// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// stubborn is the number of a host whose sshd takes keys from a file that nobody would look for.
const stubborn = 19

// rotateKey replaces the cluster-wide key of hosts that are connected, and kills the controller meanwhile. The
// hosts after them get the key by hand.
func rotateKey(t *testing.T, s *system.System, fleet *winhost.Fleet) {
	ctx := t.Context()
	// Nobody has ever logged in there, so that the former key would be kept for it.
	if err := instances(s).Delete(ctx, "kept", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	secrets := s.Kube.CoreV1().Secrets(system.Namespace)
	kept := func() []byte {
		secret, err := secrets.Get(ctx, "windows-keys-in-use", metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return secret.Data["cloud-private-key"]
	}
	signer, pem := newPEM(t)
	was, is := ssh.FingerprintSHA256(fleet.Signer.PublicKey()), ssh.FingerprintSHA256(signer.PublicKey())
	eventually(t, "the key is kept", func() error {
		if !strings.Contains(string(kept()), was) {
			return errors.New("it is not")
		}
		return nil
	})
	replaceKey(t, s, pem)
	list := func() (rotated, failed []string) {
		for i := range stubborn + 1 {
			instance, err := instances(s).Get(ctx, fmt.Sprintf("resume-%d", i), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionCredentialsCurrent)
			switch {
			case c == nil:
			case c.Reason == v1alpha1.ReasonKeyRotationFailed:
				failed = append(failed, instance.Name)
			case c.Reason == v1alpha1.ReasonKeyRotated && instance.Status.Credentials.KeyFingerprint == is:
				rotated = append(rotated, instance.Name)
			}
		}
		return rotated, failed
	}
	eventually(t, "the rotation has begun", func() error {
		if rotated, _ := list(); len(rotated) == 0 {
			return errors.New("no host has the key")
		}
		return nil
	})
	s.Controller.Kill9()
	rotated, _ := list()
	t.Logf("killed when %d hosts had the key", len(rotated))
	// Whichever key a host has: people reach it.
	for _, name := range []string{"resume-0", "resume-9", "resume-19"} {
		if stdout, stderr, code := plugin(t, s, "exec", name, "--", "hostname"); code != 0 {
			t.Errorf("%s, meanwhile: %d %s %s", name, code, stdout, stderr)
		}
	}
	if err := s.Controller.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all hosts have the key but one", func() error {
		if rotated, failed := list(); len(rotated) != stubborn || len(failed) != 1 {
			return fmt.Errorf("%v have it, and it failed on %v", rotated, failed)
		}
		return nil
	})
	for i, host := range fleet.Hosts[:stubborn+1] {
		wantOld, wantNew := i == stubborn, i != stubborn
		if old, got := accepts(t, host, fleet.Signer), accepts(t, host, signer); old != wantOld || got != wantNew {
			t.Errorf("host %d accepts the old key: %v, the new one: %v", i, old, got)
		}
	}
	if text := string(kept()); !strings.Contains(text, was) || !strings.Contains(text, is) {
		t.Error("a key that is needed is not kept")
	}
	eventually(t, "it says what to do", func() error { // unless the last attempt was interrupted
		instance, err := instances(s).Get(ctx, fmt.Sprintf("resume-%d", stubborn), metav1.GetOptions{})
		if err != nil {
			return err
		}
		return mustHave(meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionCredentialsCurrent).Message, "AuthorizedKeysFile", "Add-Content")
	})
	// Somebody does what it says.
	if err := fleet.Hosts[stubborn].SetAuthorizedKeys(signer.PublicKey()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rotation is over", func() error {
		if rotated, failed := list(); len(rotated) != stubborn+1 {
			return fmt.Errorf("%v have it, and it failed on %v", rotated, failed)
		}
		if text := string(kept()); strings.Contains(text, was) || !strings.Contains(text, is) {
			return errors.New("the former key is kept")
		}
		events, err := s.Kube.CoreV1().Events(system.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=cloud-private-key,reason=KeyRotated"})
		if err == nil && len(events.Items) == 0 {
			err = errors.New("there is no event")
		}
		return err
	})
	for _, host := range fleet.Hosts[stubborn+1:] {
		if err := host.SetAuthorizedKeys(signer.PublicKey()); err != nil {
			t.Fatal(err)
		}
	}
}

// replaceKey writes another key into the cluster-wide Secret, as the user guide says.
func replaceKey(t *testing.T, s *system.System, pem []byte) *guided {
	t.Helper()
	g := &guided{System: s, dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(g.dir, "new-key"), pem, 0o600); err != nil {
		t.Fatal(err)
	}
	g.run(t, section(t, "Replace a key"), "kubectl create secret generic cloud-private-key ")
	return g
}

// accepts says whether a host lets a key in.
func accepts(t *testing.T, host winhost.Host, key ssh.Signer) bool {
	t.Helper()
	client, err := ssh.Dial("tcp", fmt.Sprintf("%s:%d", host.Address(), host.Port()), &ssh.ClientConfig{
		User: host.User(), Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(host.HostKey()),
	})
	if err != nil {
		return false
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	return true
}
