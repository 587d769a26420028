// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// TestCompromisedKey follows the user guide when somebody else may have the key: hosts get another one and lose that, no copy of it is left, and
// no host is cut off, not even one that cannot be given another key, which is named.
func TestCompromisedKey(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	lendCredentials(t, sys, ns)
	former, pem := newPEM(t)
	kubectlIn(t, string(pem), "create", "secret", "generic", "login", "-n", ns, "--from-file=private-key.pem=/dev/stdin").ok(t)
	kubectlIn(t, "apiVersion: windows.openshift.io/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: edge}\nspec: {source: {instances: {}}, template: {credentialsSecretRef: {name: login}}}\n",
		"create", "-n", ns, "-f", "-").ok(t)
	hosts := map[string]winhost.Host{}
	for _, name := range []string{"a", "b", "elsewhere"} {
		o := winhost.Options{}
		if name == "elsewhere" { // its sshd takes keys from a file that nobody would look for
			o.InProcess.KeysFile = otherKeys
		}
		hosts[name] = startHost(t, o)
		if err := hosts[name].SetAuthorizedKeys(former.PublicKey()); err != nil {
			t.Fatal(err)
		}
		createInstance(t, ns, name, hosts[name], ", poolRef: {name: edge}")
	}
	for name := range hosts {
		waitFor(t, ns, name, loggedIn)
	}

	g := &guided{System: sys, dir: t.TempDir()}
	names := strings.NewReplacer("secret cloud-private-key -n openshift-windows-machine-config-operator", "secret login -n "+ns,
		"secret generic cloud-private-key -n openshift-windows-machine-config-operator", "secret generic login -n "+ns)
	run := func(commands ...string) { // in one shell, which has a variable
		t.Helper()
		if out, err := g.try(t, "set -e\n"+names.Replace(strings.Join(commands, "\n"))); err != nil {
			t.Fatalf("%s\n%v\n%s", commands, err, out)
		}
	}
	commands := console(t, "Replace a key that others may have")
	steps := len(commands) - 1
	run(commands[:steps]...)
	signer := g.key(t, "new-key")
	is := ssh.FingerprintSHA256(signer.PublicKey())
	current := func(name string) {
		waitForInstance(t, ns, name, "it has the other key", func(i *v1alpha1.WindowsInstance) error {
			if i.Status.Credentials == nil || i.Status.Credentials.KeyFingerprint != is {
				return errors.New("it has not")
			}
			if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionCredentialsCurrent); c == nil || c.Status != metav1.ConditionTrue {
				return fmt.Errorf("%+v", c)
			}
			return loggedIn.among(i.Status.Conditions)
		})
		if accepts(t, hosts[name], former) || !accepts(t, hosts[name], signer) {
			t.Errorf("host %s accepts the former key, or not the other one", name)
		}
	}
	current("a")
	current("b")
	waitForInstance(t, ns, "elsewhere", "it is named", func(i *v1alpha1.WindowsInstance) error {
		if c := meta.FindStatusCondition(i.Status.Conditions, v1alpha1.ConditionCredentialsCurrent); c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "AuthorizedKeysFile") {
			return fmt.Errorf("%+v", c)
		}
		return loggedIn.among(i.Status.Conditions) // it is not cut off
	})
	if err := hosts["elsewhere"].SetAuthorizedKeys(signer.PublicKey()); err != nil { // as it says
		t.Fatal(err)
	}
	current("elsewhere")
	eventually(t, "the pool says so", func() error {
		pool, err := sys.Windows.WindowsV1alpha1().WindowsNodePools(ns).Get(t.Context(), "edge", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(pool.Status.Conditions, v1alpha1.ConditionCredentialsCurrent); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})

	run(commands[steps])
	// What people do the next time takes nothing of that back.
	run(only(t, section(t, "Replace a key"), "kubectl create secret generic cloud-private-key "))
	secret, err := sys.Kube.CoreV1().Secrets(ns).Get(t.Context(), "login", metav1.GetOptions{})
	if err != nil || secret.Annotations[v1alpha1.CompromisedKeysAnnotation] != ssh.FingerprintSHA256(former.PublicKey()) {
		t.Errorf("the key is not said to be compromised any more: %v, %v", secret.Annotations, err)
	}
	if encoded, err := json.Marshal(secret); err != nil || strings.Contains(string(encoded), base64.StdEncoding.EncodeToString(pem)) {
		t.Errorf("the Secret still has the key: %v", err)
	}
	eventually(t, "no copy of the key logs in", func() error {
		secret, err := sys.Kube.CoreV1().Secrets(ns).Get(t.Context(), "windows-keys-in-use", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if text := string(secret.Data["login"]); !strings.Contains(text, is) || strings.Contains(text, strings.Split(string(pem), "\n")[1]) {
			return errors.New("the private key is there, or the other one is not")
		}
		return nil
	})
	for name := range hosts {
		waitFor(t, ns, name, loggedIn)
		if stdout, stderr, code := plugin(t, sys, "exec", name, "-n", ns, "--", "hostname"); code != 0 {
			t.Errorf("%s: %d %s %s", name, code, stdout, stderr)
		}
	}
}
