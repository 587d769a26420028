// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/test/hostsite"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"
)

// keyed is a host that has the key that its Secret had, which was kept, and the Secret has another one.
type keyed struct {
	*site
	former, current string // fingerprints
	file            string // of authorized keys, on this machine
}

// keptOf is what is kept of the data of a Secret with one key.
func keptOf(t *testing.T, data map[string][]byte) host.KeptCredential {
	t.Helper()
	kept, err := new(host.CredentialCache).Keep(data)
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	return kept[0]
}

func newKeyed(t *testing.T, o winhost.Options) *keyed {
	t.Helper()
	k := &keyed{site: newSiteOn(t, o)}
	was := k.Secrets[hostsite.ClusterCredentials.String()]
	former := keptOf(t, was)
	private, signer, err := winhost.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	is := map[string][]byte{"private-key.pem": private}
	current := keptOf(t, is)
	text, err := host.Kept{Credentials: []host.KeptCredential{current, former}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	k.Secrets[hostsite.ClusterCredentials.String()] = is
	k.Secrets["operator/"+host.KeptSecret] = map[string][]byte{hostsite.ClusterCredentials.Name: text}
	k.former, k.current = former.Fingerprint, ssh.FingerprintSHA256(signer.PublicKey())
	k.Instance.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: k.former}
	if k.file, err = k.Host.LocalPath(`C:\ProgramData\ssh\administrators_authorized_keys`); err != nil {
		t.Fatal(err)
	}
	return k
}

// login logs in as a process does that has just been started, and returns the key that the host accepts.
func (k *keyed) login(t *testing.T) string {
	t.Helper()
	k.client.Forget(k.Instance)
	peer, err := k.connector.Login(t.Context(), k.Instance)
	if err != nil {
		t.Fatal(err)
	}
	if peer.Wanted != k.current {
		t.Errorf("wanted is %s", peer.Wanted)
	}
	return peer.Accepted
}

func (k *keyed) rotation(t *testing.T) host.Rotation {
	t.Helper()
	r, err := k.connector.Rotation(t.Context(), k.Instance, host.Peer{Accepted: k.former})
	if err != nil || r.Key.Fingerprint() != k.current || len(r.Former) != 1 || r.Former[0].Fingerprint() != k.former || !r.Kept {
		t.Fatalf("got %+v, %v", r, err)
	}
	return r
}

func (k *keyed) content(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(k.file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRotateKey(t *testing.T) {
	for _, tier := range []string{winhost.TierInProcess, winhost.TierOpenSSH} {
		t.Run(tier, func(t *testing.T) {
			hosttest.Require(t, tier)
			k := newKeyed(t, winhost.Options{Tier: tier})
			before := k.content(t)
			theirs := "# of others\r\n"
			if err := errors.Join(os.WriteFile(k.file, []byte(theirs+before), 0o600), os.Chmod(k.file, 0o640)); err != nil {
				t.Fatal(err)
			}
			if got := k.login(t); got != k.former {
				t.Fatalf("the host accepts %s", got)
			}
			r := k.rotation(t)
			if removed, err := k.client.RotateKey(t.Context(), k.Instance, r, k.former); err != nil || !removed {
				t.Fatalf("removed: %t, %v", removed, err)
			}
			if got, want := k.content(t), theirs+r.Key.String()+"\r\n"; got != want {
				t.Errorf("the file is %q, want %q", got, want)
			}
			if info, err := os.Stat(k.file); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("who may read the file: %v, %v", info.Mode(), err)
			}
			if got := k.login(t); got != k.current {
				t.Errorf("then the host accepts %s", got)
			}
			// All of it once more changes nothing.
			if _, err := k.client.RotateKey(t.Context(), k.Instance, r, k.current); err != nil {
				t.Error(err)
			}
			if got, want := k.content(t), theirs+r.Key.String()+"\r\n"; got != want {
				t.Errorf("the file is %q, want %q", got, want)
			}
			// With the status that says so, nothing else is needed.
			k.Instance.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: k.current}
			delete(k.Secrets, "operator/"+host.KeptSecret)
			if got := k.login(t); got != k.current {
				t.Errorf("in the end the host accepts %s", got)
			}
		})
	}
}

// However far it came, it goes on.
func TestRotateKeyResumes(t *testing.T) {
	k := newKeyed(t, winhost.Options{})
	r := k.rotation(t)
	add := api.AuthorizeRequest{Key: r.Key.String(), Former: []string{r.Former[0].String()}}
	if _, err := k.client.authorize(t.Context(), login{Target: r.Login}, add); err != nil {
		t.Fatal(err)
	}
	if got := k.login(t); got != k.current {
		t.Fatalf("with both keys the host accepts %s", got)
	}
	if !strings.Contains(k.content(t), r.Former[0].String()) {
		t.Fatal("the former key is gone before the proof")
	}
	if _, err := k.newClient(t).RotateKey(t.Context(), k.Instance, r, k.current); err != nil {
		t.Fatal(err)
	}
	if got, want := k.content(t), r.Key.String()+"\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
}

// A key with which nobody is to log in any more is removed from a host that got the new one by hand.
func TestRotateKeyCompromised(t *testing.T) {
	k := newKeyed(t, winhost.Options{})
	name := hostsite.ClusterCredentials.Name
	kept, err := host.ParseKept(k.Secrets["operator/"+host.KeptSecret][name])
	if err != nil {
		t.Fatal(err)
	}
	kept.Credentials[1] = kept.Credentials[1].PublicOnly()
	text, err := kept.Encode()
	if err != nil {
		t.Fatal(err)
	}
	k.Secrets["operator/"+host.KeptSecret] = map[string][]byte{name: text}
	r := k.rotation(t)
	if err := os.WriteFile(k.file, []byte(r.Former[0].String()+"\n"+r.Key.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if removed, err := k.client.RotateKey(t.Context(), k.Instance, r, k.current); err != nil || !removed {
		t.Fatalf("removed: %t, %v", removed, err)
	}
	if got, want := k.content(t), r.Key.String()+"\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
}

// A key that the Secret still has besides the first one, and that is compromised, is removed from a host that accepts it.
func TestRotateKeyCompromisedFurther(t *testing.T) {
	k := newKeyed(t, winhost.Options{})
	name := hostsite.ClusterCredentials
	kept, err := host.ParseKept(k.Secrets["operator/"+host.KeptSecret][name.Name])
	if err != nil {
		t.Fatal(err)
	}
	k.Secrets[name.String()]["private-key-old.pem"] = kept.Credentials[1].Data["private-key.pem"]
	k.connector = host.New(host.Options{
		Pool: k.Pool, ReadPool: hostsite.Pools, ClusterCredentials: hostsite.ClusterCredentials,
		ReadSecret: func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
			secret, err := k.Secrets.Read(ctx, namespace, name)
			if err == nil {
				secret.Annotations = map[string]string{v1alpha1.CompromisedKeysAnnotation: k.former}
			}
			return secret, err
		},
	})
	k.client = New(Options{Hosts: k.connector, Pool: k.Pool, Agents: k.client.options.Agents})
	if got := k.login(t); got != k.former {
		t.Fatalf("the host accepts %s", got)
	}
	r := k.rotation(t)
	if removed, err := k.client.RotateKey(t.Context(), k.Instance, r, k.former); err != nil || !removed {
		t.Fatalf("removed: %t, %v", removed, err)
	}
	if got, want := k.content(t), r.Key.String()+"\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
	k.Instance.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: k.current}
	if got := k.login(t); got != k.current {
		t.Errorf("then the host accepts %s", got)
	}
}

// A pool gets a Secret of its own: with the former key as a further one hosts are logged in to, and get the new key when that is taken away.
// Without it they are lost, and it is said what is missing.
func TestRotateKeyToAnotherSecret(t *testing.T) {
	k := newKeyed(t, winhost.Options{})
	cluster := k.Secrets["operator/"+host.KeptSecret][hostsite.ClusterCredentials.Name]
	before, err := host.ParseKept(cluster)
	if err != nil {
		t.Fatal(err)
	}
	is, was := before.Credentials[0].Data["private-key.pem"], before.Credentials[1].Data["private-key.pem"]
	const name = "own"
	own, kept := k.Instance.Namespace+"/"+name, k.Instance.Namespace+"/"+host.KeptSecret
	k.Instance.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: name}
	k.Secrets[own] = map[string][]byte{"private-key.pem": is}
	_, err = k.connector.Login(t.Context(), k.Instance)
	if hostsite.Reason(err) != hostssh.ReasonCredentialsRefused || !strings.Contains(err.Error(), "It has accepted key "+k.former+" before, which neither Secret "+own+" has") {
		t.Fatalf("without the former key: %v", err)
	}

	k.Secrets[own]["private-key-old.pem"] = was
	k.client.Forget(k.Instance)
	if peer, err := k.connector.Login(t.Context(), k.Instance); err != nil || peer.Accepted != k.former || peer.Wanted != k.former {
		t.Fatalf("with both: %+v, %v", peer, err)
	}
	k.Secrets[own] = map[string][]byte{"private-key.pem": is}
	k.Secrets[kept] = map[string][]byte{name: cluster} // as the controller keeps what the host accepts, and then the new one
	if got := k.login(t); got != k.former {
		t.Fatalf("the host accepts %s", got)
	}
	r := k.rotation(t)
	if removed, err := k.client.RotateKey(t.Context(), k.Instance, r, k.former); err != nil || !removed {
		t.Fatalf("removed: %t, %v", removed, err)
	}
	if got, want := k.content(t), r.Key.String()+"\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
	// Of a compromised key a copy is not missing.
	k.Secrets[kept] = map[string][]byte{name: encoded(t, before.Credentials[0], before.Credentials[1].PublicOnly())}
	if err := os.WriteFile(k.file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k.client.Forget(k.Instance)
	if _, err = k.connector.Login(t.Context(), k.Instance); hostsite.Reason(err) != hostssh.ReasonCredentialsRefused || strings.Contains(err.Error(), "private-key-old.pem") {
		t.Errorf("after a compromised key: %v", err)
	}
}

// encoded is what is kept, as the Secret has it.
func encoded(t *testing.T, credentials ...host.KeptCredential) []byte {
	t.Helper()
	text, err := host.Kept{Credentials: credentials}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A host that got a key by hand which another one had replaced is told so, and keeps it.
func TestRotateKeyTakenBack(t *testing.T) {
	k := newKeyed(t, winhost.Options{})
	r := k.rotation(t)
	if _, err := k.client.RotateKey(t.Context(), k.Instance, r, k.former); err != nil {
		t.Fatal(err)
	}
	record, err := k.Host.LocalPath(api.ReplacedKeysPath)
	if err != nil {
		t.Fatal(err)
	}
	former := r.Former[0]
	if text, err := os.ReadFile(record); err != nil || !strings.Contains(string(text), `"former":["`+former.String()) {
		t.Fatalf("recorded is %s, %v", text, err)
	}
	both := r.Key.String() + "\n" + former.String() + "\n"
	if err := os.WriteFile(k.file, []byte(both), 0o600); err != nil {
		t.Fatal(err)
	}
	// The Secret has the key that the host has in any case: who has logged in does not matter here.
	back := host.Rotation{Key: former, Login: r.Login, Proof: r.Login}
	if removed, err := k.client.RotateKey(t.Context(), k.Instance, back, former.Fingerprint()); err != nil || removed {
		t.Fatalf("removed: %t, %v", removed, err)
	}
	if text, err := os.ReadFile(record); err != nil || strings.Contains(string(text), former.String()) || k.content(t) != both {
		t.Errorf("recorded is %s, the file %q, %v", text, k.content(t), err)
	}
}

// A host may have the former key in two files, and somebody has added the new one to one of them.
func TestRotateKeyInTwoFiles(t *testing.T) {
	k := newKeyed(t, winhost.Options{})
	own, err := k.Host.LocalPath(`C:\Users\` + k.Host.User() + `\.ssh\authorized_keys`)
	if err != nil {
		t.Fatal(err)
	}
	r := k.rotation(t)
	if err := errors.Join(os.MkdirAll(filepath.Dir(own), 0o700), os.WriteFile(own, []byte(r.Former[0].String()+"\n"), 0o600),
		os.WriteFile(k.file, []byte(r.Former[0].String()+"\n"+r.Key.String()+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if removed, err := k.client.RotateKey(t.Context(), k.Instance, r, k.current); err != nil || !removed {
		t.Fatalf("removed: %t, %v", removed, err)
	}
	text, err := os.ReadFile(own)
	if want := r.Key.String() + "\n"; err != nil || k.content(t) != want || string(text) != want {
		t.Errorf("the files are %q and %q, %v", k.content(t), text, err)
	}
}

// Whatever fails, the host stays accessible with what it had.
func TestRotateKeyFails(t *testing.T) {
	t.Run("the disk is full", func(t *testing.T) {
		k := newKeyed(t, winhost.Options{})
		k.login(t)
		if _, err := k.client.Facts(t.Context(), k.Instance); err != nil { // the agent is there
			t.Fatal(err)
		}
		before := k.content(t)
		k.SetFault(t, winhost.Fault{DiskFull: true})
		_, err := k.client.RotateKey(t.Context(), k.Instance, k.rotation(t), k.former)
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Step != StepRefused {
			t.Errorf("got %v", err)
		}
		if k.content(t) != before || k.login(t) != k.former {
			t.Errorf("the file became %q", k.content(t))
		}
	})
	t.Run("sshd has its keys elsewhere", func(t *testing.T) {
		k := newKeyed(t, winhost.Options{InProcess: winhost.InProcessOptions{KeysFile: `C:\ProgramData\keys`}})
		_, err := k.client.RotateKey(t.Context(), k.Instance, k.rotation(t), k.former)
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Step != StepRefused || !strings.Contains(err.Error(), "AuthorizedKeysFile") {
			t.Errorf("got %v", err)
		}
		if k.login(t) != k.former {
			t.Error("the host is lost")
		}
		// Somebody adds it by hand, and the connection is the one with the former key.
		r := k.rotation(t)
		file, err := k.Host.LocalPath(`C:\ProgramData\keys`)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(r.Former[0].String()+"\n"+r.Key.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if removed, err := k.client.RotateKey(t.Context(), k.Instance, r, k.former); err != nil || removed {
			t.Errorf("after it was added by hand, removed: %t, %v", removed, err)
		}
	})
	t.Run("sshd has some keys elsewhere, so that the new one is not accepted", func(t *testing.T) {
		k := newKeyed(t, winhost.Options{InProcess: winhost.InProcessOptions{KeysFile: `C:\ProgramData\keys`}})
		r := k.rotation(t)
		if err := os.MkdirAll(filepath.Dir(k.file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(k.file, []byte(r.Former[0].String()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := k.client.RotateKey(t.Context(), k.Instance, r, k.former)
		if notProven, ok := errors.AsType[*NotProvenError](err); !ok || hostsite.Reason(notProven) != hostssh.ReasonCredentialsRefused {
			t.Errorf("got %v", err)
		}
		if got, want := k.content(t), r.Former[0].String()+"\n"+r.Key.String()+"\n"; got != want {
			t.Errorf("the file is %q, want %q", got, want)
		}
		if k.login(t) != k.former {
			t.Error("the host is lost")
		}
	})
}

// A host that was logged in to with a password gets the key where the keys of administrators belong.
func TestRotateFromPassword(t *testing.T) {
	k := newKeyed(t, winhost.Options{Password: "correct horse"})
	text, err := host.Kept{Credentials: []host.KeptCredential{{Data: map[string][]byte{"password": []byte("correct horse")}}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	k.Secrets["operator/"+host.KeptSecret] = map[string][]byte{hostsite.ClusterCredentials.Name: text}
	k.Instance.Status.Credentials = &v1alpha1.CredentialsStatus{}
	if err := k.Host.SetAuthorizedKeys(); err != nil {
		t.Fatal(err)
	}
	if got := k.login(t); got != "" {
		t.Fatalf("the host accepts %s", got)
	}
	r, err := k.connector.Rotation(t.Context(), k.Instance, host.Peer{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.client.RotateKey(t.Context(), k.Instance, r, ""); err != nil {
		t.Fatal(err)
	}
	if got := k.login(t); got != k.current {
		t.Errorf("then the host accepts %s", got)
	}
}

// certified is the certificate of the key of a Secret for a user, in it.
func certified(t *testing.T, data map[string][]byte, authority ssh.Signer, user string) map[string][]byte {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(data["private-key.pem"])
	if err != nil {
		t.Fatal(err)
	}
	c := &ssh.Certificate{
		Key: signer.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{user}, ValidBefore: ssh.CertTimeInfinity,
		Permissions: ssh.Permissions{Extensions: map[string]string{"permit-port-forwarding": "", "permit-pty": ""}},
	}
	if err := c.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	data["private-key.pem-cert.pub"] = ssh.MarshalAuthorizedKey(c)
	return data
}

// A host that trusts who signs certificates gets no key by itself when that of the Secret is replaced, and loses a former one that
// it has.
func TestRotateKeyOfCertificate(t *testing.T) {
	hosttest.Require(t, winhost.TierOpenSSH)
	authority := hosttest.NewKey(t)
	k := newKeyed(t, winhost.Options{Tier: winhost.TierOpenSSH, UserAuthorities: []ssh.PublicKey{authority.PublicKey()}})
	before := k.content(t)
	current := k.Secrets[hostsite.ClusterCredentials.String()]
	name := hostsite.ClusterCredentials.Name
	kept, err := host.ParseKept(k.Secrets["operator/"+host.KeptSecret][name])
	if err != nil {
		t.Fatal(err)
	}
	was := certified(t, kept.Credentials[1].Data, authority, k.Host.User())
	certified(t, current, authority, k.Host.User())
	kept.Credentials[1] = keptOf(t, was)
	text, err := kept.Encode()
	if err != nil {
		t.Fatal(err)
	}
	k.Secrets["operator/"+host.KeptSecret] = map[string][]byte{name: text}
	rotate := func(file string) (r host.Rotation, removed bool, err error) {
		t.Helper()
		if err := os.WriteFile(k.file, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		k.client.Forget(k.Instance)
		peer, err := k.connector.Login(t.Context(), k.Instance)
		if err != nil {
			t.Fatal(err)
		}
		if r, err = k.connector.Rotation(t.Context(), k.Instance, peer); err != nil {
			t.Fatal(err)
		}
		removed, err = k.client.RotateKey(t.Context(), k.Instance, r, peer.Accepted)
		return r, removed, err
	}
	const theirs = "# of others\n"
	r, removed, err := rotate(theirs)
	if err != nil || !removed || !r.Certified || r.Key.Fingerprint() != k.current || k.content(t) != theirs {
		t.Errorf("a host without keys: %+v, removed: %t, %v; its file is %q", r, removed, err, k.content(t))
	}
	r, removed, err = rotate(before)
	if want := r.Key.String() + "\n"; err != nil || !removed || k.content(t) != want {
		t.Errorf("one that has the former key, too: removed: %t, %v; its file is %q, want %q", removed, err, k.content(t), want)
	}
	delete(current, "private-key.pem-cert.pub")
	r, _, err = rotate(theirs)
	if failed, ok := errors.AsType[*Error](err); !ok || failed.Step != StepRefused || r.Certified || k.content(t) != theirs {
		t.Errorf("the new key has no certificate: %v; its file is %q", err, k.content(t))
	}
}
