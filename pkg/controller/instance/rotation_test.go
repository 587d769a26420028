// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// rotating is a fixture with one host that has a key, and the keys of which the second one comes next.
func rotating(t *testing.T) (f *fixture, was, is host.Key) {
	t.Helper()
	was, is = newKey(t, "was"), newKey(t, "is")
	f = newFixture(t, newInstance("win-1", "10.1.42.1"))
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.key, h.accepts, h.wants = newKey(t, "host"), was.Fingerprint(), was.Fingerprint()
		h.rotation = &host.Rotation{Key: was}
	})
	f.settle("win-1")
	if diff := cmp.Diff(&v1alpha1.CredentialsStatus{KeyFingerprint: was.Fingerprint()}, f.get("win-1").Status.Credentials); diff != "" {
		t.Fatalf("at first (-want +got)\n%s", diff)
	}
	if c := meta.FindStatusCondition(f.get("win-1").Status.Conditions, v1alpha1.ConditionCredentialsCurrent); c != nil {
		t.Errorf("before any rotation there is %+v", c)
	}
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.wants, h.rotation = is.Fingerprint(), &host.Rotation{Key: is, Former: []host.Key{was}, Kept: true}
	})
	f.journal.take()
	return f, was, is
}

// again probes the host once more.
func (f *fixture) again(name string) {
	f.t.Helper()
	f.clock.Step(2 * DefaultRecheckInterval)
	f.settle(name)
}

// expectRotation compares what the status says of the key, and returns the message of the condition.
func (f *fixture) expectRotation(name string, want v1alpha1.CredentialsStatus, reason string) string {
	f.t.Helper()
	status := f.get(name).Status
	if diff := cmp.Diff(&want, status.Credentials); diff != "" {
		f.t.Errorf("status.credentials (-want +got)\n%s", diff)
	}
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCredentialsCurrent)
	if c == nil || c.Reason != reason {
		f.t.Fatalf("the condition is %+v, want %s", c, reason)
	}
	return c.Message
}

func TestRotateKey(t *testing.T) {
	f, was, is := rotating(t)
	f.again("win-1")
	message := f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: is.Fingerprint()}, v1alpha1.ReasonKeyRotated)
	if !strings.Contains(message, is.Fingerprint()) || !strings.Contains(message, "were removed from its files") {
		t.Errorf("it says %q", message)
	}
	f.expect("win-1", v1alpha1.InstanceConnected, "Authenticated=True/LoggedIn", "PreflightPassed=True/PreflightPassed")
	if journal := f.journal.take(); !slices.Contains(journal, "RotateKey win-1 from "+was.Fingerprint()+" to "+is.Fingerprint()) || !slices.Contains(journal, "rotated win-1") {
		t.Errorf("what happened: %q", journal)
	}
	f.again("win-1")
	if journal := f.journal.take(); slices.ContainsFunc(journal, func(s string) bool { return strings.HasPrefix(s, "RotateKey") || strings.HasPrefix(s, "write") }) {
		t.Errorf("when nothing is left to do: %q", journal)
	}
}

// A controller that was killed after the host got the key, and before that was recorded, has the former key removed.
func TestRotateKeyResumes(t *testing.T) {
	f, was, is := rotating(t)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.accepts = is.Fingerprint() })
	f.again("win-1")
	if journal := f.journal.take(); !slices.Contains(journal, "RotateKey win-1 from "+is.Fingerprint()+" to "+is.Fingerprint()) {
		t.Errorf("what happened: %q", journal)
	}
	f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: is.Fingerprint()}, v1alpha1.ReasonKeyRotated)
	_ = was
}

// Nobody is told that a key was removed that may still be there.
func TestRotateKeyWithoutRemoval(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(h *scriptedHost)
		want   string
	}{
		{"its sshd takes keys from elsewhere", func(h *scriptedHost) { h.elsewhere = true }, "were not removed. Remove them there: FORMER."},
		{"the former one is not known any more", func(h *scriptedHost) { h.accepts, h.rotation.Former = h.wants, nil }, "It had key FORMER before, which is not kept any more, so it was not removed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, was, is := rotating(t)
			f.hosts.set("10.1.42.1", test.change)
			f.again("win-1")
			message := f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: is.Fingerprint()}, v1alpha1.ReasonKeyRotated)
			if want := strings.ReplaceAll(test.want, "FORMER", was.Fingerprint()); !strings.Contains(message, want) {
				t.Errorf("it says %q, want %q", message, want)
			}
		})
	}
}

// The Secret has a former key again that was not kept, and somebody has added it on the host, which refused it: the host is told,
// so that it does not replace that key once more.
func TestRotateKeyTakenBack(t *testing.T) {
	f, was, _ := rotating(t)
	f.again("win-1")
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.accepts, h.wants, h.rotation = was.Fingerprint(), was.Fingerprint(), &host.Rotation{Key: was}
	})
	f.journal.take()
	f.again("win-1")
	if journal := f.journal.take(); !slices.Contains(journal, "RotateKey win-1 from "+was.Fingerprint()+" to "+was.Fingerprint()) {
		t.Errorf("what happened: %q", journal)
	}
	if message := f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: was.Fingerprint()}, v1alpha1.ReasonKeyRotated); strings.Contains(message, "were removed") {
		t.Errorf("it says %q", message)
	}
}

// A host of WMCO that runs keeps its keys, whatever is known of it, and however it got the new one.
func TestRotateKeyLeftToWMCO(t *testing.T) {
	f, was, is := rotating(t)
	node := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	node.Annotations = map[string]string{wmco.VersionAnnotation: "11.0.0"}
	if err := f.client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	desired := &scriptedDesired{err: wmcoRunsError{}}
	f.r.Desired = desired
	f.again("win-1")
	if m := f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: was.Fingerprint(), RotatingTo: is.Fingerprint()}, v1alpha1.ReasonKeyRotationPending); !strings.Contains(m, "its keys are left to the Windows Machine Config Operator") {
		t.Errorf("it says %q", m)
	}
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.accepts = is.Fingerprint() })
	f.again("win-1")
	if m := f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: is.Fingerprint()}, v1alpha1.ReasonKeyRotated); !strings.Contains(m, "are left to the Windows Machine Config Operator") {
		t.Errorf("it says %q", m)
	}
	if journal := f.journal.take(); slices.ContainsFunc(journal, func(s string) bool { return strings.HasPrefix(s, "RotateKey") }) {
		t.Errorf("what happened: %q", journal)
	}
	// WMCO has ended.
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.accepts = was.Fingerprint() })
	desired.mu.Lock()
	desired.err, desired.revision = nil, revision1
	desired.mu.Unlock()
	f.again("win-1")
	if journal := f.journal.take(); !slices.Contains(journal, "RotateKey win-1 from "+was.Fingerprint()+" to "+is.Fingerprint()) {
		t.Errorf("after WMCO has ended: %q", journal)
	}
}

// TestKeysOfWMCO: before anything of ours is on a host, WMCO that runs has its keys.
func TestKeysOfWMCO(t *testing.T) {
	theirs, others := newNode("win-1", "10.1.42.1", corev1.ConditionTrue), newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	theirs.Annotations = map[string]string{wmco.VersionAnnotation: "11.0.0"}
	upgrading := newNode("win-1", "10.1.42.1", corev1.ConditionTrue)
	upgrading.Labels = map[string]string{wmco.UpgradingLabel: "true"}
	for name, tt := range map[string]struct {
		snapshot snapshot
		current  string
		released bool
		begun    bool
		want     bool
	}{
		"no node, and WMCO runs":           {snapshot: snapshot{managed: true, inputs: wmcoRunsError{}}, want: true},
		"no node":                          {snapshot: snapshot{managed: true}},
		"its node, and it runs":            {snapshot: snapshot{managed: true, node: theirs, inputs: wmcoRunsError{}}, want: true},
		"its node, and it has ended":       {snapshot: snapshot{managed: true, node: theirs}},
		"its node, adopted":                {snapshot: snapshot{managed: true, node: theirs, inputs: wmcoRunsError{}}, current: "wmco-11.0.0"},
		"its node, and without payload":    {snapshot: snapshot{node: theirs}, current: "agent", want: true},
		"no node, and without payload":     {snapshot: snapshot{}},
		"a node that has no version yet":   {snapshot: snapshot{managed: true, node: others, inputs: wmcoRunsError{}}, want: true},
		"a node of others, and WMCO ended": {snapshot: snapshot{managed: true, node: others}},
		"a node of others, no payload":     {snapshot: snapshot{node: others}},
		"upgraded by WMCO, no payload":     {snapshot: snapshot{node: upgrading}, want: true},
		"the cluster could not be read":    {snapshot: snapshot{managed: true, node: theirs, inputs: errors.New("reading Secret: timeout")}, want: true},
		"it could not be read, and ours":   {snapshot: snapshot{managed: true, node: theirs, inputs: errors.New("reading Secret: timeout")}, current: "rev-1"},
		"released, and WMCO has ended":     {snapshot: snapshot{managed: true, node: theirs}, released: true, want: true},
		"another input is missing":         {snapshot: snapshot{managed: true, node: theirs, inputs: document.ErrInputs}},
		"maybe released":                   {snapshot: snapshot{managed: true, node: theirs}, current: "rev-1", begun: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := &evaluation{snapshot: tt.snapshot, status: v1alpha1.WindowsInstanceStatus{CurrentRevision: tt.current}}
			if tt.released || tt.begun {
				e.status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationRelease, HostReleased: tt.released, ReleaseBegun: tt.begun}
			}
			if got := e.keysOfWMCO(); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestRotateKeyWaits(t *testing.T) {
	f, was, is := rotating(t)
	want := v1alpha1.CredentialsStatus{KeyFingerprint: was.Fingerprint(), RotatingTo: is.Fingerprint()}
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.rotation = &host.Rotation{Key: is, Former: []host.Key{was}} })
	f.again("win-1")
	if m := f.expectRotation("win-1", want, v1alpha1.ReasonKeyRotationPending); !strings.Contains(m, "has not kept a copy") {
		t.Errorf("it says %q", m)
	}
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.rotation.Kept = true })
	f.rotations.wait = "others come first"
	f.again("win-1")
	if m := f.expectRotation("win-1", want, v1alpha1.ReasonKeyRotationPending); !strings.HasSuffix(m, "It waits: others come first.") {
		t.Errorf("it says %q", m)
	}
	if journal := f.journal.take(); slices.ContainsFunc(journal, func(s string) bool { return strings.HasPrefix(s, "RotateKey") }) {
		t.Errorf("what happened: %q", journal)
	}
	f.rotations.wait = ""
	f.clock.Step(2 * time.Minute) // such a host is looked at each minute
	f.settle("win-1")
	f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: is.Fingerprint()}, v1alpha1.ReasonKeyRotated)
}

func TestRotateKeyFails(t *testing.T) {
	const failed, interrupted = v1alpha1.ReasonKeyRotationFailed, v1alpha1.ReasonKeyRotationInterrupted
	notProven := func(layer hostssh.Layer, reason hostssh.Reason) error {
		return &agentclient.NotProvenError{Err: &hostssh.Error{Layer: layer, Reason: reason}}
	}
	for _, test := range []struct {
		name   string
		err    error
		reason string
		want   string
	}{
		{"not proven", notProven(hostssh.LayerAuth, hostssh.ReasonCredentialsRefused), failed, "the host does not accept it: see the log of sshd"},
		{"not proven, as it breaks off", notProven(hostssh.LayerAuth, hostssh.ReasonConnectionReset), failed, "the host does not accept it: see the log of sshd"},
		{"refused by the agent", &agentclient.Error{Step: agentclient.StepRefused, Err: errors.New("sshd takes it from elsewhere.")}, failed, ": sshd takes it from elsewhere. It is tried again"},
		{"the connection broke", &hostssh.Error{Layer: hostssh.LayerSession, Reason: hostssh.ReasonConnectionLost}, interrupted, "The connection to 10.1.42.1:22 broke"},
		{"the agent hangs", &hostssh.Error{Layer: hostssh.LayerSession, Reason: hostssh.ReasonTimedOut}, interrupted, "did not answer in time on 10.1.42.1:22"},
		{"the host went before it was proven", notProven(hostssh.LayerConnect, hostssh.ReasonConnectionTimedOut), interrupted, "10.1.42.1:22 does not answer"},
		{"the host hangs when it is proven", notProven(hostssh.LayerAuth, hostssh.ReasonTimedOut), interrupted, "did not answer while user"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, was, is := rotating(t)
			f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.refuses = test.err })
			f.again("win-1")
			m := f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: was.Fingerprint(), RotatingTo: is.Fingerprint()}, test.reason)
			if command := map[string]string{failed: is.String(), interrupted: "kubectl windows check win-1 -n "}[test.reason]; !strings.Contains(m, test.want) || !strings.Contains(m, command) {
				t.Errorf("it says %q", m)
			}
			f.expect("win-1", v1alpha1.InstanceConnected, "Authenticated=True/LoggedIn", "PreflightPassed=True/PreflightPassed")
			// Others go on by what is said of it, also while it waits until it is tried again.
			f.rotations.wait = "others come first"
			f.again("win-1")
			if still := f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: was.Fingerprint(), RotatingTo: is.Fingerprint()}, test.reason); still != m {
				t.Errorf("while it waits it says %q", still)
			}
			f.rotations.wait = ""
			// Whatever else it waits for is said, and it is no failure any more.
			f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.rotation.Kept = false })
			f.again("win-1")
			f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: was.Fingerprint(), RotatingTo: is.Fingerprint()}, v1alpha1.ReasonKeyRotationPending)
			f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.rotation.Kept = true })
			// It has both keys: one could not be removed.
			f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.accepts = is.Fingerprint() })
			f.again("win-1")
			f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: was.Fingerprint(), RotatingTo: is.Fingerprint()}, test.reason)
			f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.refuses = nil })
			f.again("win-1")
			f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: is.Fingerprint()}, v1alpha1.ReasonKeyRotated)
		})
	}
}

// A host that accepts the certificate of the new key is current, whether or not it has keys.
func TestRotateKeyCertified(t *testing.T) {
	f, _, is := rotating(t)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) { h.accepts, h.certified = is.Fingerprint(), true })
	f.again("win-1")
	want := "The host accepts a certificate of key " + is.Fingerprint() + ", which its Secret has, and none of the keys that the Secret had before is in its files of authorized keys."
	if m := f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: is.Fingerprint()}, v1alpha1.ReasonKeyRotated); m != want {
		t.Errorf("it says %q", m)
	}
	f.journal.take()
	f.again("win-1")
	if journal := f.journal.take(); slices.ContainsFunc(journal, func(s string) bool { return strings.HasPrefix(s, "RotateKey") || strings.HasPrefix(s, "write") }) {
		t.Errorf("when nothing is left to do: %q", journal)
	}
}

// A host that accepts nothing but the certificate of the former key cannot be given another key: the new one has to be signed.
func TestRotateKeyWithoutCertificate(t *testing.T) {
	f, was, is := rotating(t)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.certified, h.refuses = true, &agentclient.Error{Step: agentclient.StepRefused, Err: errors.New("it is elsewhere")}
	})
	f.again("win-1")
	m := f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: was.Fingerprint(), RotatingTo: is.Fingerprint()}, v1alpha1.ReasonKeyRotationFailed)
	if !strings.Contains(m, "it accepts a certificate of the former key") || !strings.Contains(m, "ssh-keygen -s AUTHORITY -I windows-instance-api -n 'administrator' -V +52w private-key.pem.pub") {
		t.Errorf("it says %q", m)
	}
}

// TestRotateKeyByHand: the command that adds the key spoils no other one: a file whose last line has no end gets one first.
func TestRotateKeyByHand(t *testing.T) {
	f, was, is := rotating(t)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.refuses = &agentclient.Error{Step: agentclient.StepRefused, Err: errors.New("it is elsewhere")}
	})
	f.again("win-1")
	m := f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: was.Fingerprint(), RotatingTo: is.Fingerprint()}, v1alpha1.ReasonKeyRotationFailed)
	byHand := ` -Value '', '` + is.String() + `'; icacls.exe C:\ProgramData\ssh\administrators_authorized_keys /inheritance:r /grant '*S-1-5-32-544:F' /grant '*S-1-5-18:F'`
	if !strings.HasSuffix(m, byHand) {
		t.Errorf("it says %q", m)
	}

	// Whoever has a Machine can have another one.
	i := f.get("win-1")
	i.OwnerReferences = []metav1.OwnerReference{{APIVersion: machinev1beta1.SchemeGroupVersion.String(), Kind: "Machine", Name: "winworker-a", UID: "m", Controller: new(true)}}
	i.Spec.PoolRef = &v1alpha1.PoolReference{Name: "winworker"}
	failed := &rotation{key: is, err: errors.New("it is elsewhere")}
	if m := describeRotationFailure(failed, i, &v1alpha1.WindowsNodePool{}); !strings.HasSuffix(m, byHand+". Or have its MachineSet make another one, after a drain, unless its template has the former key, as on vSphere: kubectl delete machines.machine.openshift.io winworker-a -n "+i.Namespace) {
		t.Errorf("of the host of a MachineSet it says %q", m)
	}
	// New Machines get the cluster-wide key, and those of no MachineSet are not made again.
	own := &v1alpha1.WindowsNodePool{}
	own.Spec.Template.CredentialsSecretRef = &v1alpha1.SecretReference{Name: "own"}
	for _, pool := range []*v1alpha1.WindowsNodePool{own, nil} {
		if m := describeRotationFailure(failed, i, pool); !strings.HasSuffix(m, byHand) {
			t.Errorf("with pool %+v it says %q", pool, m)
		}
	}
}

// A host that accepts one of several keys of its Secret keeps that one.
func TestRotateKeyOfSeveral(t *testing.T) {
	f, was, is := rotating(t)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.wants, h.rotation = was.Fingerprint(), &host.Rotation{Key: was, Current: []host.Key{is, was}, Kept: true}
	})
	f.again("win-1")
	if journal := f.journal.take(); slices.ContainsFunc(journal, func(s string) bool { return strings.HasPrefix(s, "RotateKey") || strings.HasPrefix(s, "write") }) {
		t.Errorf("what happened: %q", journal)
	}
	// Somebody has replaced it on the host, by another one of the Secret.
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.accepts, h.wants, h.rotation = is.Fingerprint(), is.Fingerprint(), &host.Rotation{Key: is, Current: []host.Key{is, was}, Kept: true}
	})
	f.again("win-1")
	if m := f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: is.Fingerprint()}, v1alpha1.ReasonKeyRotated); m != "The host accepts key "+is.Fingerprint()+", which its Secret has." {
		t.Errorf("it says %q", m)
	}
}

// A compromised key that the Secret still has is removed from a host that is logged in to with another one, once.
func TestRotateKeyLosesCompromised(t *testing.T) {
	f, was, is := rotating(t)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.wants, h.loses = was.Fingerprint(), []string{is.Fingerprint()}
		h.rotation = &host.Rotation{Key: was, Current: []host.Key{was, is}, Former: []host.Key{is}, Kept: true}
	})
	f.again("win-1")
	if journal := f.journal.take(); !slices.Contains(journal, "RotateKey win-1 from "+was.Fingerprint()+" to "+was.Fingerprint()) {
		t.Errorf("what happened: %q", journal)
	}
	want := "The host accepts key " + was.Fingerprint() + ", which its Secret has, and its files of authorized keys have none that the Secret had before, nor the compromised ones that it has: " + is.Fingerprint() + "."
	if m := f.expectRotation("win-1", v1alpha1.CredentialsStatus{KeyFingerprint: was.Fingerprint()}, v1alpha1.ReasonKeyRotated); m != want {
		t.Errorf("it says %q", m)
	}
	f.again("win-1")
	if journal := f.journal.take(); slices.ContainsFunc(journal, func(s string) bool { return strings.HasPrefix(s, "RotateKey") || strings.HasPrefix(s, "write") }) {
		t.Errorf("when nothing is left to do: %q", journal)
	}
}

// TestLoggedIn: the condition says which certificate is accepted, and why another one is not.
func TestLoggedIn(t *testing.T) {
	for want, peer := range map[string]host.Peer{
		"The host accepts the credentials of user core.":                                      {Accepted: "SHA256:x"},
		"The host accepts the credentials of user core, a certificate of key SHA256:x.":       {Accepted: "SHA256:x", Certified: true, With: "a certificate of key SHA256:x"},
		"The host accepts the credentials of user core. The certificate expired at midnight.": {Accepted: "SHA256:x", Remark: "The certificate expired at midnight."},
	} {
		if got := loggedIn(peer, "core"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A host whose key nobody knows, and that accepts neither, says so as ever, and what was known of it stays.
func TestRotateKeyRefused(t *testing.T) {
	f, was, _ := rotating(t)
	f.hosts.set("10.1.42.1", func(h *scriptedHost) {
		h.fail[diagnose.StageLogin] = &hostssh.Error{Layer: hostssh.LayerAuth, Reason: hostssh.ReasonCredentialsRefused}
	})
	f.again("win-1")
	f.expect("win-1", v1alpha1.InstanceFailed, "Authenticated=False/CredentialsRefused")
	if got := f.get("win-1").Status.Credentials; got == nil || got.KeyFingerprint != was.Fingerprint() {
		t.Errorf("it is known to have %+v", got)
	}
}
