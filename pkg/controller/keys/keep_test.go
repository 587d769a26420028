// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package keys

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
)

// instanceWith is an instance whose host has a key, "" being a password, and gets another one, if that is not empty.
func instanceWith(name, has, gets string, reasons ...string) *v1alpha1.WindowsInstance {
	i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"}}
	if has != "unknown" {
		i.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: has, RotatingTo: gets}
	}
	for _, reason := range reasons {
		condition := v1alpha1.ConditionCredentialsCurrent
		if reason == v1alpha1.ReasonCredentialsRefused {
			condition = v1alpha1.ConditionAuthenticated
		}
		i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionFalse, Reason: reason})
	}
	return i
}

// keptOf are credentials with fingerprints, the newest first.
func keptOf(rotatingTo string, fingerprints ...string) host.Kept {
	k := host.Kept{RotatingTo: rotatingTo}
	for _, f := range fingerprints {
		k.Credentials = append(k.Credentials, credentialOf(f))
	}
	return k
}

// credentialOf is a credential with a fingerprint.
func credentialOf(fingerprint string) host.KeptCredential {
	return host.KeptCredential{Fingerprint: fingerprint, PublicKey: "public " + fingerprint, Data: map[string][]byte{"private-key.pem": []byte("private " + fingerprint)}}
}

// credentialsOf are those of a Secret that has the keys with fingerprints.
func credentialsOf(fingerprints string) (out []host.KeptCredential) {
	for f := range strings.SplitSeq(fingerprints, " ") {
		out = append(out, credentialOf(f))
	}
	return out
}

// several says how many of what is kept the Secret has itself.
func several(k host.Kept, current int) host.Kept {
	k.Current = current
	return k
}

// publicOnly takes the private part of one credential away.
func publicOnly(k host.Kept, which int) host.Kept {
	k.Credentials[which].Data = nil
	return k
}

func TestKeep(t *testing.T) {
	const grace = 8 * time.Minute
	at := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	rotatedAt := func(before time.Duration, fingerprints ...string) host.Kept {
		k, then := keptOf("", fingerprints...), at.Add(before)
		k.RotatedAt = &then
		return k
	}
	on := func(keys ...string) (out []*v1alpha1.WindowsInstance) {
		for i, k := range keys {
			has, gets, _ := strings.Cut(k, ">")
			out = append(out, instanceWith(fmt.Sprintf("win-%d", i+1), has, gets))
		}
		return out
	}
	for _, test := range []struct {
		name        string
		before      host.Kept
		now         string
		compromised []string
		instances   []*v1alpha1.WindowsInstance
		want        host.Kept
	}{
		{"nobody has logged in", host.Kept{}, "A", nil, on("unknown"), host.Kept{}},
		{"the key in use is kept before it is replaced", host.Kept{}, "A", nil, on("unknown", "A"), keptOf("", "A")},
		{"and stays", keptOf("", "A"), "A", nil, on("A", "A"), keptOf("", "A")},
		{"it is replaced: both are kept", keptOf("", "A"), "B", nil, on("A", "A"), keptOf("B", "B", "A")},
		{"until the last host has the new one", keptOf("B", "B", "A"), "B", nil, on("B", "A>B"), keptOf("B", "B", "A")},
		{"which is not to be overlooked", keptOf("B", "B", "A"), "B", nil, on("B", "unknown"), keptOf("B", "B", "A")},
		{"then the former one stays for a while", keptOf("B", "B", "A"), "B", nil, on("B", "B"), rotatedAt(0, "B", "A")},
		{"a probe that began before may last as long", rotatedAt(-grace+1, "B", "A"), "B", nil, on("B", "B"), rotatedAt(-grace+1, "B", "A")},
		{"then it goes", rotatedAt(-grace, "B", "A"), "B", nil, on("B", "B"), keptOf("", "B")},
		{"unless a host needs it", rotatedAt(-grace, "B", "A"), "B", nil, on("B", "A>B"), keptOf("B", "B", "A")},
		{"taken back while a host was getting the new one, which is known later", keptOf("B", "B", "A"), "A", nil, on("A", "A"), rotatedAt(0, "A", "B")},
		{"replaced again while a host is down", keptOf("B", "B", "A"), "C", nil, on("B", "A>B"), keptOf("C", "C", "B", "A")},
		{"taken back", keptOf("B", "B", "A"), "A", nil, on("B", "A>B"), keptOf("A", "A", "B")},
		{"a host that has both keys needs both", keptOf("B", "B", "A"), "B", nil, on("A>B"), keptOf("B", "B", "A")},
		{"compromised", keptOf("", "A"), "B", []string{"A"}, on("A"), publicOnly(keptOf("B", "B", "A"), 1)},
		{"of which nothing stays when all hosts have the new one", publicOnly(rotatedAt(-grace, "B", "A"), 1), "B", []string{"A"}, on("B"), keptOf("", "B")},
		{"the new one is compromised", keptOf("", "A"), "B", []string{"B"}, on("A"), publicOnly(keptOf("B", "B", "A"), 0)},
		{"from a password to a key", keptOf("", ""), "B", nil, on(""), keptOf("B", "B", "")},
		{"from a key to a password, that nobody has", keptOf("", "A"), "", nil, on("A"), keptOf("", "A")},
		{"of several keys those are kept that hosts accept", host.Kept{}, "C B A", nil, on("A", "A"), keptOf("", "A")},
		{"each of them", keptOf("", "A"), "C B A", nil, on("A", "B", "unknown"), several(keptOf("", "B", "A"), 2)},
		{"a host of a key that the Secret has no more gets the first, and one that it gets is kept", keptOf("", "Z"), "C B A", nil, on("Z", "Y>B"), several(keptOf("C", "C", "B", "Z"), 2)},
		{"the first one takes the place of another when that is taken away", several(keptOf("", "C", "A"), 2), "C", nil, on("C", "A"), keptOf("C", "C", "A")},
		{"one that no host accepts any more goes after a while", keptOf("", "A"), "C A", nil, on("C"), rotatedAt(0, "C", "A")},
		{"a further one that the Secret has is compromised: its hosts get the first", keptOf("", "A"), "C A", []string{"A"}, on("A"), publicOnly(several(keptOf("C", "C", "A"), 2), 1)},
		{"until the last has it", publicOnly(several(keptOf("C", "C", "A"), 2), 1), "C A", []string{"A"}, on("C", "A>C"), publicOnly(several(keptOf("C", "C", "A"), 2), 1)},
		{"and then nothing of it stays, after a while", publicOnly(rotatedAt(-grace, "C", "A"), 1), "C A", []string{"A"}, on("C"), keptOf("", "C")},
		{"the first one is compromised, and there is another", keptOf("", "C"), "C B", []string{"C"}, on("C"), publicOnly(several(keptOf("B", "C", "B"), 2), 0)},
		{"all are compromised", host.Kept{}, "C A", []string{"A", "C"}, on("A"), publicOnly(keptOf("", "A"), 0)},
		{"too many", keptOf("I", "H", "G", "F", "E", "D", "C", "B", "A"), "I", nil, on("A>I"), keptOf("I", "I", "H", "G", "F", "E", "D", "C", "A")},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := keep(test.before, credentialsOf(test.now), test.compromised, test.instances, at, grace)
			if p := progressOf(test.instances, fingerprintsOf(soundOf(credentialsOf(test.now), test.compromised))...); got.Hosts != p.current+p.former {
				t.Errorf("%d hosts", got.Hosts)
			}
			got.Hosts = 0
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff([]string{"SHA256:a", "SHA256:b"}, host.CompromisedKeys(map[string]string{v1alpha1.CompromisedKeysAnnotation: "SHA256:a, SHA256:b\n"})); diff != "" {
		t.Errorf("an annotation (-want +got)\n%s", diff)
	}
}

// TestKeepForMachines: user data of WMCO authorizes the key of the first day at each boot, in the place of all others. Where no service of our
// agent replaces it once more, a copy of it is needed for as long.
func TestKeepForMachines(t *testing.T) {
	const grace = 8 * time.Minute
	at := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	long := keptOf("", "B", "A")
	since := at.Add(-leftFor)
	long.RotatedAt, long.Hosts = &since, 2
	machine := func(i *v1alpha1.WindowsInstance) {
		i.OwnerReferences = []metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: i.Name, UID: "m", Controller: new(true)}}
	}
	revision := func(r string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) { i.Status.CurrentRevision = r }
	}
	configured := func(reason string) func(*v1alpha1.WindowsInstance) {
		return func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionUnknown, Reason: reason})
		}
	}
	for _, test := range []struct {
		name   string
		change []func(*v1alpha1.WindowsInstance)
		want   string
	}{
		{"adopted, and not updated", []func(*v1alpha1.WindowsInstance){machine, revision("wmco-10.17.0")}, "B A"},
		{"adopted, of a version that nobody knows", []func(*v1alpha1.WindowsInstance){machine, revision("wmco-unknown")}, "B A"},
		{"not configured so far", []func(*v1alpha1.WindowsInstance){machine}, "B A"},
		{"a node of others", []func(*v1alpha1.WindowsInstance){machine, configured(v1alpha1.ReasonForeignNode)}, "B A"},
		{"perhaps released", []func(*v1alpha1.WindowsInstance){machine, revision("r1"), configured(v1alpha1.ReasonForeignNode)}, "B A"},
		{"a node of WMCO", []func(*v1alpha1.WindowsInstance){machine, configured(v1alpha1.ReasonManagedByWMCO)}, "B A"},
		{"only watched, with the digest of the agent", []func(*v1alpha1.WindowsInstance){machine, revision("d1"), configured(v1alpha1.ReasonNotManaged)}, "B A"},
		{"configured by us", []func(*v1alpha1.WindowsInstance){machine, revision("r1")}, "B"},
		{"configured by us, with a later problem", []func(*v1alpha1.WindowsInstance){machine, revision("r1"), configured(v1alpha1.ReasonInputsMissing)}, "B"},
		{"adopted, and no Machine", []func(*v1alpha1.WindowsInstance){revision("wmco-10.17.0")}, "B"},
	} {
		t.Run(test.name, func(t *testing.T) {
			one, other := instanceWith("win-1", "B", ""), instanceWith("win-2", "B", "")
			for _, change := range test.change {
				change(one)
			}
			after := keep(long, credentialsOf("B"), nil, []*v1alpha1.WindowsInstance{one, other}, at, grace)
			if got := strings.Join(fingerprintsOf(after.Credentials), " "); got != test.want {
				t.Errorf("%q is kept, want %q", got, test.want)
			}
			if test.want == "B A" { // a compromised one is not logged in with, for nothing
				after = keep(after, credentialsOf("B"), []string{"A"}, []*v1alpha1.WindowsInstance{one, other}, at, grace)
				if i := slices.IndexFunc(after.Credentials, func(k host.KeptCredential) bool { return k.Fingerprint == "A" }); i >= 0 && after.Credentials[i].LogsIn() {
					t.Error("a compromised key is kept")
				}
			}
		})
	}
}

// TestKeepWhatHostsLeft: a key is not lost with the instances of its Secret, nor when they have another one for some time.
func TestKeepWhatHostsLeft(t *testing.T) {
	const grace = 8 * time.Minute
	at := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	hosts := func(keys ...string) (out []*v1alpha1.WindowsInstance) {
		for i, k := range keys {
			out = append(out, instanceWith(fmt.Sprintf("win-%d", i+1), k, ""))
		}
		return out
	}
	fingerprints := func(k host.Kept) string {
		var out []string
		for _, c := range k.Credentials {
			out = append(out, c.Fingerprint)
		}
		return strings.Join(out, " ")
	}
	rotating, rotated := keptOf("B", "B", "A"), keptOf("", "B", "A")
	rotating.Hosts, rotated.Hosts, rotated.RotatedAt = 3, 3, &at
	for _, test := range []struct {
		name      string
		before    host.Kept
		instances []*v1alpha1.WindowsInstance
		// What is kept then, after the time that former keys stay in any case, and after that which those of hosts stay that
		// have left.
		now, soon, later string
	}{
		{"a host has left that had the former key, or the new one", rotating, hosts("B", "B"), "B A", "B A", "B"},
		{"a host has left when all had the new one", rotated, hosts("B", "B"), "B A", "B", "B"},
		{"none has left", rotating, hosts("B", "B", "B"), "B A", "B", "B"},
		{"all have left", rotating, nil, "B A", "B A", ""},
		{"a host has left that had one of several keys", several(hosted(keptOf("", "B", "A"), 3), 2), hosts("B", "B"), "B A", "B A", "B"},
		{"the same, while a former one is kept as well", several(atRest(hosted(keptOf("", "B", "A", "Z"), 3), at), 2), hosts("B", "B"), "B A Z", "B A", "B"},
		{"all have left, as an earlier release has it", keptOf("", "A"), nil, "A", "A", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			kept := test.before
			for _, look := range []struct {
				after time.Duration
				want  string
			}{{0, test.now}, {grace, test.soon}, {leftFor, test.later}} {
				if test.instances == nil {
					kept = keepUnused(kept, at.Add(look.after))
				} else {
					kept = keep(kept, credentialsOf("B"), nil, test.instances, at.Add(look.after), grace)
				}
				if got := fingerprints(kept); got != look.want {
					t.Errorf("after %s %q is kept, want %q", look.after, got, look.want)
				}
			}
		})
	}
}

// TestNextUnused: all Secrets that no instance has are read, and never too many at a time.
func TestNextUnused(t *testing.T) {
	names := make([]string, 2*maxUnusedRead+1)
	for i := range names {
		names[i] = fmt.Sprintf("secret-%03d", i)
	}
	if got := nextUnused(names[:maxUnusedRead], time.Now()); len(got) != maxUnusedRead {
		t.Errorf("%d are read", len(got))
	}
	read := map[string]bool{}
	at := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	for range 3 {
		part := nextUnused(names, at)
		if len(part) > maxUnusedRead {
			t.Errorf("%d are read at a time", len(part))
		}
		for _, name := range part {
			read[name] = true
		}
		at = at.Add(interval)
	}
	if len(read) != len(names) {
		t.Errorf("%d of %d are read", len(read), len(names))
	}
	if got := nextUnused(nil, at); len(got) > 0 {
		t.Errorf("of none, %v", got)
	}
}

// hosted says how many hosts what is kept is of.
func hosted(k host.Kept, hosts int) host.Kept {
	k.Hosts = hosts
	return k
}

// atRest says since when all of them have keys of the Secret.
func atRest(k host.Kept, since time.Time) host.Kept {
	k.RotatedAt = &since
	return k
}

func TestPace(t *testing.T) {
	names := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("win-%02d", i+1))
		}
		return out
	}
	const first, stopped = "3 hosts get the key first", "no more hosts get the key, because "
	for _, test := range []struct {
		name    string
		p       progress
		running int
		again   bool
		want    string // its beginning
	}{
		{"the first", progress{former: 9}, 0, false, ""},
		{"the third", progress{former: 9}, 2, false, ""},
		{"the fourth waits", progress{former: 9}, 3, false, first},
		{"after three all others", progress{current: 3, former: 90}, 63, false, ""},
		{"but not all at once", progress{current: 3, former: 90}, 64, false, first},
		{"one fails", progress{current: 0, former: 9, failed: names(2)}, 0, false, ""},
		{"all of the first fail", progress{former: 9, failed: names(3)}, 0, false, stopped + "3 of 3 could not be given it: win-01, win-02, win-03. See"},
		{"as many fail before three have it", progress{current: 2, former: 90, failed: names(3)}, 0, false, stopped + "3 of 5 could not"},
		{"those that failed may try again", progress{former: 9, failed: names(3)}, 2, true, ""},
		{"not all at once either", progress{former: 9, failed: names(3)}, 3, true, first},
		{"a few of many", progress{current: 97, former: 3, failed: names(3)}, 0, false, ""},
		{"a few of many, which come early", progress{current: 3, former: 47, failed: names(3)}, 0, false, ""},
		{"more than a tenth of all", progress{current: 3, former: 26, failed: names(3)}, 0, false, stopped + "3 of 6 could not"},
	} {
		if got := pace(test.p, test.running, test.again); !strings.HasPrefix(got, test.want) || (test.want == "") != (got == "") {
			t.Errorf("%s: got %q", test.name, got)
		}
	}
}

func TestProgress(t *testing.T) {
	got := progressOf([]*v1alpha1.WindowsInstance{
		instanceWith("has-it", "B", ""), instanceWith("gets-it", "A", "B", v1alpha1.ReasonKeyRotationPending),
		instanceWith("fails", "A", "B", v1alpha1.ReasonKeyRotationFailed), instanceWith("failed-at-another", "A", "C", v1alpha1.ReasonKeyRotationFailed),
		instanceWith("refuses", "A", "", v1alpha1.ReasonCredentialsRefused), instanceWith("new", "unknown", ""),
		instanceWith("has-another-of-it", "D", ""), instanceWith("gets-one-of-two", "D", "B", v1alpha1.ReasonKeyRotationPending),
		instanceWith("hangs", "A", "B", v1alpha1.ReasonKeyRotationInterrupted),
	}, "B", "D")
	want := progress{current: 2, former: 6, unknown: 1, failed: []string{"fails"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(progress{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestKeepWhatHostsAccept: a Secret that is replaced again and again keeps the key that a host accepts, however old it is.
func TestKeepWhatHostsAccept(t *testing.T) {
	at := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	before := keptOf("H", "H", "G", "F", "E", "D", "C", "B", "A")
	after := keep(before, credentialsOf("I"), nil, []*v1alpha1.WindowsInstance{instanceWith("win-1", "A", "H"), instanceWith("win-2", "C", "H")}, at, time.Minute)
	var got []string
	for _, k := range after.Credentials {
		got = append(got, k.Fingerprint)
	}
	if want := []string{"I", "H", "G", "F", "E", "D", "C", "A"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
