// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// keyed is a host of pool p that accepts key has, and is to accept key to. reason is that of its condition CredentialsCurrent.
func keyed(name, has, to, reason string) *v1alpha1.WindowsInstance {
	i := hostOfPool(name)
	i.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: has, RotatingTo: to}
	if reason != "" {
		status := metav1.ConditionFalse
		if reason == v1alpha1.ReasonKeyRotated {
			status = metav1.ConditionTrue
		}
		i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionCredentialsCurrent, Status: status, Reason: reason, Message: "Of " + name + "."})
	}
	return i
}

// refusing is a host that refuses the login.
func refusing(i *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstance {
	i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAuthenticated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCredentialsRefused})
	return i
}

// ofSecret is a host with a Secret of its own.
func ofSecret(i *v1alpha1.WindowsInstance, secret string) *v1alpha1.WindowsInstance {
	i.Spec.CredentialsSecretRef = &v1alpha1.SecretReference{Name: secret}
	return i
}

// TestKeyLines: how far a rotation has come is said while hosts have different keys, of each Secret.
func TestKeyLines(t *testing.T) {
	done := func(name string) *v1alpha1.WindowsInstance { return keyed(name, "n", "", v1alpha1.ReasonKeyRotated) }
	waits := func(name string) *v1alpha1.WindowsInstance {
		return keyed(name, "o", "n", v1alpha1.ReasonKeyRotationPending)
	}
	leaves := waits("leaves")
	leaves.DeletionTimestamp = new(metav1.Now())
	for _, tt := range []struct {
		name  string
		hosts []*v1alpha1.WindowsInstance
		want  []string
	}{
		{"no host", nil, nil},
		{"never logged in to", []*v1alpha1.WindowsInstance{hostOfPool("a")}, nil},
		{"never rotated", []*v1alpha1.WindowsInstance{keyed("a", "o", "", ""), keyed("b", "o", "", ""), hostOfPool("c")}, nil},
		{"all have it", []*v1alpha1.WindowsInstance{done("a"), done("b"), leaves}, nil},
		{"it begins", []*v1alpha1.WindowsInstance{waits("a"), keyed("b", "o", "", "")}, []string{"Keys: 0 of 2 hosts have the new key n, 1 waits for it, 1 accepts o."}},
		{"it goes on", []*v1alpha1.WindowsInstance{done("a"), done("b"), waits("c"), waits("d")}, []string{"Keys: 2 of 4 hosts have the new key n, 2 wait for it."}},
		{"each end", []*v1alpha1.WindowsInstance{
			done("a"), waits("b"), keyed("c", "o", "n", v1alpha1.ReasonKeyRotationFailed), keyed("d", "o", "n", v1alpha1.ReasonKeyRotationInterrupted),
			keyed("e", "o", "", ""), refusing(keyed("f", "o", "n", v1alpha1.ReasonKeyRotationPending)), hostOfPool("g"),
		}, []string{"Keys: 1 of 7 hosts has the new key n, 1 waits for it, 1 could not be given it, 1 did not answer meanwhile, 1 accepts o, 1 refuses the login, 1 was not logged in to yet."}},
		{"replaced twice", []*v1alpha1.WindowsInstance{done("a"), keyed("b", "o", "m", v1alpha1.ReasonKeyRotationPending), waits("c")}, []string{"Keys: 1 of 3 hosts has the new key m or n, 2 wait for it."}},
		{"the others were not asked yet", []*v1alpha1.WindowsInstance{done("a"), keyed("b", "o", "", ""), keyed("c", "o", "", "")},
			[]string{"Keys: 2 of 3 hosts accept o, 1 accepts n. The key of their Secret was replaced, or it has several."}},
		{"from a password", []*v1alpha1.WindowsInstance{done("a"), keyed("b", "", "", "")},
			[]string{"Keys: 1 of 2 hosts accepts a password, 1 accepts n. The key of their Secret was replaced, or it has several."}},
		{"the others refuse", []*v1alpha1.WindowsInstance{done("a"), done("b"), refusing(keyed("c", "o", "", ""))},
			[]string{"Keys: 2 of 3 hosts accept n, 1 refuses the login. The key of their Secret was replaced, or it has several."}},
		{"two Secrets, neither of which was changed", []*v1alpha1.WindowsInstance{done("a"), ofSecret(keyed("b", "x", "", ""), "own")}, nil},
		{"two Secrets", []*v1alpha1.WindowsInstance{done("a"), waits("b"), ofSecret(keyed("c", "x", "y", v1alpha1.ReasonKeyRotationPending), "own")},
			[]string{"Keys: 1 of 2 hosts has the new key n, 1 waits for it.", "Keys: 0 of 1 host with Secret own have the new key y, 1 waits for it."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, keyLines(tt.hosts)); diff != "" {
				t.Errorf("lines (-want +got)\n%s", diff)
			}
		})
	}
}

// TestHostLineOfRotation: a host that has not its key yet is not merely up to date.
func TestHostLineOfRotation(t *testing.T) {
	for reason, want := range map[string]string{
		"":                                    "up to date",
		v1alpha1.ReasonKeyRotated:             "up to date",
		v1alpha1.ReasonKeyRotationPending:     "up to date, is to get another key",
		v1alpha1.ReasonKeyRotationFailed:      "up to date, could not be given its key",
		v1alpha1.ReasonKeyRotationInterrupted: "up to date, did not answer while it was given its key",
	} {
		if got := stateOf(keyed("a", "o", "", reason), finishedPool(), "").text; got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

// TestRolloutStatusOfRotation: that a rotation of keys goes on is said, and does not keep a rollout from its end.
func TestRolloutStatusOfRotation(t *testing.T) {
	a := newAPI(t, keyed("a", "n", "", v1alpha1.ReasonKeyRotated), keyed("b", "o", "n", v1alpha1.ReasonKeyRotationPending))
	a.servePool(finishedPool())
	const line = "Keys: 1 of 2 hosts has the new key n, 1 waits for it.\n"
	got := a.run("rollout", "status", "p")
	if got.code != ExitOK || got.stderr != "a: up to date\nb: up to date, is to get another key\np: 2 of 2 hosts are up to date\n"+line ||
		got.stdout != "windowsnodepool/p: all 2 hosts are up to date\n"+line+"To see which hosts: kubectl windows describe wnp/p -n hosts\n" {
		t.Errorf("code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := a.run("rollout", "status", "p", "--watch=false"); !strings.HasPrefix(got.stdout, "p: 2 of 2 hosts are up to date, 2 ready\n"+line+"├─ a") {
		t.Errorf("once: %s%s", got.stdout, got.stderr)
	}
}

// TestDescribePoolNeedsAttention: the messages that say what to do stand below the conditions, each once.
func TestDescribePoolNeedsAttention(t *testing.T) {
	type condition = metav1.Condition
	degraded := func(text string) condition {
		return condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonInstancesFailed, Message: text}
	}
	synced := func(reason, text string) condition {
		status := metav1.ConditionFalse
		if reason == v1alpha1.ReasonSynced {
			status = metav1.ConditionTrue
		}
		return condition{Type: v1alpha1.ConditionSourceSynced, Status: status, Reason: reason, Message: text}
	}
	calm := condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected, Message: "SAID"}
	keys := func(status metav1.ConditionStatus, reason string) condition {
		return condition{Type: v1alpha1.ConditionCredentialsCurrent, Status: status, Reason: reason, Message: "SAID"}
	}
	for _, tt := range []struct {
		name       string
		conditions []condition
		want       int
	}{
		{"as expected", []condition{calm}, 0},
		{"degraded", []condition{degraded("SAID")}, 1},
		{"updates failed", []condition{{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUpdatesFailed, Message: "SAID"}}, 1},
		{"paused", []condition{{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPaused, Message: "SAID"}}, 1},
		{"not paused", []condition{{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotPaused, Message: "SAID"}}, 0},
		{"synced", []condition{synced(v1alpha1.ReasonSynced, "SAID.")}, 0},
		{"synced, and Machines have failed", []condition{synced(v1alpha1.ReasonSynced, "Fine.\nSAID: kubectl delete machine m"), calm}, 1},
		{"replacements stopped", []condition{synced(v1alpha1.ReasonReplacementsStopped, "SAID"), {Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected}}, 1},
		{"replacements stopped, which degrades", []condition{synced(v1alpha1.ReasonReplacementsStopped, "SAID"), degraded("SAID\nInstances that need attention: a.")}, 1},
		{"another thing degrades so far", []condition{synced(v1alpha1.ReasonInvalidEntries, "SAID"), degraded("SAI")}, 1},
		{"all have their key", []condition{keys(metav1.ConditionTrue, v1alpha1.ReasonKeyRotated)}, 0},
		{"some refuse their key", []condition{keys(metav1.ConditionFalse, v1alpha1.ReasonHostsRefuse)}, 1},
		{"an update is outstanding", []condition{{Type: v1alpha1.ConditionUpdated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUpdateOutstanding, Message: "SAID"}}, 0},
		{"waits for a slot", []condition{{Type: v1alpha1.ConditionUpdating, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUpdateInProgress, Message: "SAID"}}, 0},
		{"waits for somebody", []condition{{Type: v1alpha1.ConditionUpdating, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUpdateBlocked, Message: "SAID"}}, 0},
		{"cannot be updated", []condition{{Type: v1alpha1.ConditionUpdating, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUpdateOutstanding, Message: "SAID"}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := finishedPool()
			pool.Status.Conditions = tt.conditions
			got := describePool(pool, nil, nil, time.Now())
			if n := strings.Count(got, "SAID"); n != tt.want {
				t.Errorf("said %d times, want %d\n%s", n, tt.want, got)
			}
		})
	}
}

// TestDescribePoolOfRotation: how far it is, and which hosts need somebody.
func TestDescribePoolOfRotation(t *testing.T) {
	a := newAPI(t, keyed("a", "n", "", v1alpha1.ReasonKeyRotated), keyed("b", "o", "n", v1alpha1.ReasonKeyRotationFailed))
	pool := finishedPool()
	message := fmt.Sprintf("1 host could not be given the key, see their condition %s: b.", v1alpha1.ConditionCredentialsCurrent)
	pool.Status.Conditions = append(pool.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionCredentialsCurrent, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonKeyRotationFailed, Message: message})
	a.servePool(pool)
	a.handle(http.MethodGet, "/api/v1/namespaces/hosts/events", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"})
	})
	a.run("describe", "wnp/p").want(t, ExitOK, "Keys: 1 of 2 hosts has the new key n, 1 could not be given it.\n", "└─ b   up to date, could not be given its key\n", "  CredentialsCurrent: "+message+"\n")
}
