// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/output"
)

func TestDescribe(t *testing.T) {
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	before := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	i := inPool(instance("w1", "node-1"), "windows-instances")
	i.CreationTimestamp = before(3 * time.Hour)
	i.Labels = map[string]string{"rack": "r1", "a": "b"}
	i.Annotations = map[string]string{v1alpha1.SourceAnnotation: "ConfigMap ns/windows-instances, entry w1"}
	i.Status.Phase = v1alpha1.InstanceDraining
	i.Status.Version, i.Status.CurrentRevision, i.Status.DesiredRevision = "v1", strings.Repeat("a", 64), strings.Repeat("b", 64)
	i.Status.System = &v1alpha1.SystemStatus{Product: "Windows Server 2022 Datacenter", Build: "10.0.20348.2700", Architecture: "amd64", Hostname: "win-1", CPUs: 4, Memory: new(resource.MustParse("8Gi")), BootTime: new(before(48 * time.Hour))}
	i.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{SearchedAt: new(before(time.Hour)), Pending: 3, Security: 2, Message: "no\nnetwork"}
	i.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: "SHA256:k"}
	i.Status.HostKeys = []v1alpha1.HostKeyStatus{{Type: "ssh-ed25519", Fingerprint: "SHA256:x", TrustedBy: v1alpha1.TrustedOnFirstUse, FirstSeen: before(time.Hour)}}
	i.Status.Conditions = []metav1.Condition{
		{Type: "Resolved", Status: "True", Reason: "AddressResolved", Message: "fine", LastTransitionTime: before(time.Hour)},
		{Type: "NodeReady", Status: "False", Reason: "NodeNotReady", Message: "kubelet stopped posting;\nread its log", LastTransitionTime: before(time.Minute)},
		{Type: "Ready", Status: "False", Reason: "NodeNotReady", Message: "see NodeReady", LastTransitionTime: before(time.Minute)},
	}
	i.Status.Operation = &v1alpha1.Operation{
		ID: "drain-1", Type: drain, Phase: running, RequestedBy: "anna", RequestedAt: before(2 * time.Minute), StartedAt: new(before(2 * time.Minute)),
		Progress:  &v1alpha1.OperationProgress{Done: 1, Total: 2, Unit: "pods"},
		BlockedBy: []v1alpha1.BlockedPod{{Namespace: "shop", Name: "web", Budget: "b"}},
		Steps:     []v1alpha1.OperationStep{{Name: v1alpha1.StepCordon, State: v1alpha1.StepSucceeded, StartedAt: new(before(2 * time.Minute)), FinishedAt: new(before(119 * time.Second))}, {Name: v1alpha1.StepDrain, State: v1alpha1.StepPending}},
	}
	i.Status.History = []v1alpha1.Operation{{Type: v1alpha1.OperationReboot, Phase: v1alpha1.OperationFailed, RequestedBy: "bob", RequestedAt: before(24 * time.Hour), Message: "too\nlate"}}
	events := []corev1.Event{{Type: "Warning", Reason: "Drain", Message: "a pod\nstays", Count: 3, LastTimestamp: before(time.Minute), ReportingController: "windows-controller"}}

	want := `Name:          w1
Namespace:     hosts
Labels:        a=b,rack=r1
Source:        ConfigMap ns/windows-instances, entry w1
Created:       3h ago
Address:       10.1.42.1 port 22
User:          Administrator
Credentials:   those of the pool or of the cluster
Key:           SHA256:k
Pool:          windows-instances
Paused:        no
Phase:         Draining
Node:          node-1
System:        Windows Server 2022 Datacenter 10.0.20348.2700, amd64, 4 CPUs, 8.0 GiB memory, win-1, started 2d ago
Updates:       3 pending, 2 of them for security, searched for 60m ago; the last search failed: no network
Version:       v1
Revision:      aaaaaaaaaaaa, will become bbbbbbbbbbbb

Host keys:
  TYPE          FINGERPRINT   TRUSTED BY   SINCE
  ssh-ed25519   SHA256:x      FirstUse     60m

Conditions:
  TYPE        STATUS   SINCE   REASON
  Resolved    True     60m     AddressResolved
  NodeReady   False    60s     NodeNotReady
  Ready       False    60s     NodeNotReady

  NodeReady: kubelet stopped posting;
    read its log

Operation:
  Type:           Drain
  Phase:          Running
  Requested by:   anna, 2m ago
  Origin:         User
  Took:           2m
  ID:             drain-1
  Progress:       1/2 pods
  Blocked by:     shop/web (PodDisruptionBudget b)

Steps:
  STEP     STATE       TOOK   MESSAGE
  Cordon   Succeeded   1s
  Drain    Pending     -

History:
  OPERATION   PHASE    BY    AGE   TOOK   MESSAGE
  Reboot      Failed   bob   24h   -      too late

Events:
  TYPE      REASON   AGE        FROM                 MESSAGE
  Warning   Drain    60s (x3)   windows-controller   a pod stays
`
	if diff := cmp.Diff(want, describe(i, events, now)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// TestDescribeConfiguration: what a host is set up with, what becomes of it, and what somebody
// may have to do about it.
func TestDescribeConfiguration(t *testing.T) {
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now)}
	}
	tests := []struct {
		name   string
		change func(i *v1alpha1.WindowsInstance)
		want   []string
		not    []string
	}{
		{"is to be a node of another name", func(i *v1alpha1.WindowsInstance) { i.Spec.NodeName = "WIN-7" }, []string{"Node:          <none>, will be win-7\n"}, []string{"Removal:"}},
		{"is to be left", func(i *v1alpha1.WindowsInstance) {
			i.Spec.Removal = &v1alpha1.RemovalOptions{Policy: v1alpha1.RemovalAbandon}
		}, []string{"Removal:       the host is left as it is"}, nil},
		{"is to be given up", func(i *v1alpha1.WindowsInstance) {
			i.Spec.Removal = &v1alpha1.RemovalOptions{AfterSeconds: new(int64(3 * 3600))}
		}, []string{"Removal:       the host is cleaned; given up if it cannot be reached for 3h\n"}, nil},
		{"is being set up", func(i *v1alpha1.WindowsInstance) {
			i.Status.Operation = &v1alpha1.Operation{Type: v1alpha1.OperationReconfigure, Phase: running, Revision: strings.Repeat("c", 64), PoolRevision: "pool-6f9b", Impact: v1alpha1.ImpactDrain}
		}, []string{"  Revision:        cccccccccccc\n  Pool revision:   pool-6f9b\n  Impact:          Drain\n"}, []string{strings.Repeat("c", 13)}},
		{"could not be set up", func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions = []metav1.Condition{condition("Configured", "False", "ConfigurationFailed", "Do this.")}
		}, []string{"  Configured: Do this.\n"}, nil},
		{"is only watched", func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions = []metav1.Condition{condition("Configured", "Unknown", "NotManaged", "The host is watched.")}
		}, []string{"NotManaged"}, []string{"The host is watched."}},
		{"is up to date", func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions = []metav1.Condition{condition("UpToDate", "True", "RevisionCurrent", "The host has revision aaaaaaaaaaaa.")}
		}, []string{"RevisionCurrent"}, []string{"The host has revision"}},
		{"is up to date, and others changed it", func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions = []metav1.Condition{condition("UpToDate", "True", "RevisionCurrent", "The host has revision aaaaaaaaaaaa. Others changed it.")}
		}, []string{"Others changed it."}, nil},
		{"lacks updates of Windows", func(i *v1alpha1.WindowsInstance) {
			i.Status.WindowsUpdates = &v1alpha1.WindowsUpdatesStatus{SearchedAt: new(metav1.NewTime(now)), Pending: 2, Security: 1, Failed: []v1alpha1.FailedUpdate{
				{Name: "KB5044281", Security: true, RetryAt: metav1.NewTime(now.Add(23 * time.Hour)), Message: "it cannot be installed:\nHRESULT 0x80073712"},
				{Name: "KB2", RetryAt: metav1.NewTime(now)},
				{Name: "KB3", RetryAt: metav1.NewTime(now.Add(23 * time.Hour)), Interactive: true, Message: "it may ask questions"},
			}}
		}, []string{
			"Updates:         2 pending, 1 of them for security, searched for 0s ago\nFailed update:   KB5044281: it cannot be installed: HRESULT 0x80073712; not tried again for 23h; to try it now: kubectl windows reboot w1 -n hosts --install-updates=Security\n" +
				"Failed update:   KB2: <none>; to try it now: kubectl windows reboot w1 -n hosts --install-updates=All\nFailed update:   KB3: it may ask questions\nVersion:",
		}, nil},
		{"was never logged in to", func(*v1alpha1.WindowsInstance) {}, []string{"Key:           <none>\n"}, nil},
		{"has a password", func(i *v1alpha1.WindowsInstance) { i.Status.Credentials = &v1alpha1.CredentialsStatus{} }, []string{"Key:           a password\n"}, nil},
		{"has another key than before", func(i *v1alpha1.WindowsInstance) {
			i.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: "SHA256:n"}
			i.Status.Conditions = []metav1.Condition{condition("CredentialsCurrent", "True", "KeyRotated", "The host accepts key SHA256:n, which its Secret has.")}
		}, []string{"Key:           SHA256:n\n", "KeyRotated"}, []string{"The host accepts key"}},
		{"may accept a former key", func(i *v1alpha1.WindowsInstance) {
			i.Status.Conditions = []metav1.Condition{condition("CredentialsCurrent", "True", "KeyRotated", "The host accepts key SHA256:n, which its Secret has. It had key SHA256:o before: remove it.")}
		}, []string{"It had key SHA256:o before: remove it."}, nil},
		{"could not be given its key", func(i *v1alpha1.WindowsInstance) {
			i.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: "SHA256:o", RotatingTo: "SHA256:n"}
			i.Status.Conditions = []metav1.Condition{condition("CredentialsCurrent", "False", "KeyRotationFailed", "Do it by hand.")}
		}, []string{"Key:           SHA256:o, will become SHA256:n (KeyRotationFailed, not current for 0s)\n", "  CredentialsCurrent: Do it by hand.\n"}, nil},
		{"refuses its key", func(i *v1alpha1.WindowsInstance) {
			i.Status.Credentials = &v1alpha1.CredentialsStatus{KeyFingerprint: "SHA256:o"}
			i.Status.Conditions = []metav1.Condition{condition("Authenticated", "False", "CredentialsRefused", "Add it.")}
		}, []string{"Key:           SHA256:o; the host refuses the login now\n"}, nil},
		{"cannot be cleaned", func(i *v1alpha1.WindowsInstance) {
			i.DeletionTimestamp = new(metav1.NewTime(now))
			i.Status.Conditions = []metav1.Condition{condition("Removed", "False", "RemovalFailed", "To give the host up: abandon it.")}
		}, []string{"Phase:         Removing\n", "  Removed: To give the host up: abandon it.\n"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := instance("w1", "")
			tt.change(i)
			got := describe(i, nil, now)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(got, not) {
					t.Errorf("%q is in\n%s", not, got)
				}
			}
		})
	}
}

func TestDescribeReadsEvents(t *testing.T) {
	a := newAPI(t, instance("w1", ""))
	const events = "/api/v1/namespaces/hosts/events"
	a.handle(http.MethodGet, events, func(w http.ResponseWriter, r *http.Request) {
		answer(w, corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, Items: []corev1.Event{{Reason: "Connected"}}})
	})
	a.run("describe", "w1").want(t, 0, "Name:          w1", "Connected")
	if got := a.asked(events); len(got) != 1 || !strings.Contains(got[0], "involvedObject.uid%3Dw1") {
		t.Errorf("requests: %v", got)
	}
	a.handle(http.MethodGet, events, func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "", "you may not")
	})
	a.run("describe", "w1").want(t, 0, "Name:          w1", "the events cannot be read: Error from server (Forbidden): you may not")
	a.run("describe", "nope").want(t, 1, `"nope"`)
}

func TestCheck(t *testing.T) {
	status := v1alpha1.WindowsInstanceCheckStatus{
		Passed: true,
		Layers: []v1alpha1.CheckLayer{
			{Name: "Resolve", Result: v1alpha1.CheckPassed, Duration: metav1.Duration{Duration: 1500 * time.Microsecond}},
			{Name: "Connect", Result: v1alpha1.CheckSkipped, Message: "why\nnot"},
		},
	}
	a := newAPI(t, instance("w1", ""))
	a.handle(http.MethodPost, "check", func(w http.ResponseWriter, r *http.Request) {
		answer(w, v1alpha1.WindowsInstanceCheck{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstanceCheck"}, Status: status,
		})
	})
	a.run("check", "w1").want(t, 0, "LAYER     RESULT    TOOK   REASON   MESSAGE\nResolve   Passed    2ms    -\nConnect   Skipped   -      -        why not\n")
	status.Passed = false
	status.Findings = []v1alpha1.CheckFinding{{Code: "DiskTooSmall", Severity: v1alpha1.FindingError, Message: "make room"}}
	a.run("check", "w1").want(t, ExitCheckFailed, "DiskTooSmall   Error      make room", "w1: something is in the way")
	a.run("check", "w1", "-o", "jsonpath={.status.passed}").want(t, ExitCheckFailed, "false")
	a.run("check", "w1", "w1", "-o", "nope").want(t, 1, "nope")
}

func TestInspect(t *testing.T) {
	a := newAPI(t, instance("w1", ""))
	asTable := true
	a.handle(http.MethodGet, "inspect", func(w http.ResponseWriter, r *http.Request) {
		if asTable && strings.Contains(r.Header.Get("Accept"), "as=Table") {
			answer(w, metav1.Table{
				TypeMeta:          metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"},
				ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "What", Type: "string"}, {Name: "Value", Type: "string"}},
				Rows:              []metav1.TableRow{{Cells: []any{"Clock", "+2s"}}},
			})
			return
		}
		answer(w, inspection(1, 4, 2, false))
	})
	a.run("inspect", "w1").want(t, 0, "WHAT    VALUE\nClock   +2s\n")
	a.run("inspect", "w1", "-o", "jsonpath={.boot.uptime}").want(t, 0, "1h0m0s")
	a.run("inspect", "w1", "-o", "yaml").want(t, 0, "kind: WindowsInstanceInspection", "pendingReboot:")
	asTable = false
	a.run("inspect", "w1").want(t, 0, "kind: WindowsInstanceInspection")
}

// inspection is of a host with 8 GiB of memory and 100 GiB of disk.
func inspection(hours, memoryFree, diskFree int, pending bool) v1alpha1.WindowsInstanceInspection {
	i := v1alpha1.WindowsInstanceInspection{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstanceInspection"},
		CPUs:     4,
		Memory:   v1alpha1.MemoryInspection{Total: resource.MustParse("8Gi"), Available: resource.MustParse(fmt.Sprintf("%dGi", memoryFree))},
		Disks:    []v1alpha1.DiskInspection{{Path: `D:\`}, {Path: `C:\`, System: true, Total: resource.MustParse("100Gi"), Free: resource.MustParse(fmt.Sprintf("%dGi", diskFree))}},
		Boot:     v1alpha1.BootInspection{Uptime: metav1.Duration{Duration: time.Duration(hours) * time.Hour}},
	}
	if pending {
		i.PendingReboot = v1alpha1.RebootInspection{Pending: true, Reasons: []string{"Windows Update"}}
	}
	return i
}

func TestTop(t *testing.T) {
	a := newAPI(t, instance("w1", "node-1"), instance("w2", ""), instance("w3", ""))
	a.handle(http.MethodGet, "inspect", func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("name") {
		case "w1":
			answer(w, inspection(1, 6, 50, false))
		case "w2":
			refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "", "host w2 cannot be reached")
		default:
			answer(w, inspection(72, 2, 10, true))
		}
	})
	for _, tc := range []struct {
		name, sort string
		want       []string
	}{
		{"by name", "", []string{"w1", "w3", "w2"}},
		{"by memory", "memory", []string{"w3", "w1", "w2"}},
		{"by disk", "disk", []string{"w3", "w1", "w2"}},
		{"by uptime", "uptime", []string{"w3", "w1", "w2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := a.run("top", "--sort-by="+tc.sort)
			got.want(t, ExitFailure, "1 of 3 hosts did not succeed",
				"w1     node-1   4      2.0 GiB (25%)   8.0 GiB   50.0 GiB (50%)   100 GiB   60m      no\n",
				"w3     <none>   4      6.0 GiB (75%)   8.0 GiB   10.0 GiB (10%)   100 GiB   3d       yes Windows Update\n",
				"Error from server (ServiceUnavailable): host w2 cannot be reached\n")
			var names []string
			for _, line := range strings.Split(strings.TrimSpace(got.stdout), "\n")[1:] {
				names = append(names, strings.Fields(line)[0])
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
	a.run("top", "w1").want(t, 0, "w1")
	a.run("top", "--sort-by=nope").want(t, 1, "must be memory, disk or uptime")
}

// newKey is a host key that is the same each time.
func newKey(t *testing.T, seed byte) ssh.PublicKey {
	t.Helper()
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
	key, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// changed is an instance whose host presents another key than the trusted one.
func changed(i *v1alpha1.WindowsInstance, trusted, presented ssh.PublicKey) *v1alpha1.WindowsInstance {
	i.Status.HostKeys = []v1alpha1.HostKeyStatus{{Type: trusted.Type(), Fingerprint: ssh.FingerprintSHA256(trusted)}}
	i.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionHostKeyTrusted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHostKeyChanged,
		Message: fmt.Sprintf(`10.1.42.1 presents host key %s; trusted is %s. Accept it: kubectl patch windowsinstances.windows.openshift.io w1 -n hosts --type=merge -p '{"spec":{"hostKeys":["%s"]}}'`,
			ssh.FingerprintSHA256(presented), ssh.FingerprintSHA256(trusted), keyLine(presented)),
	}}
	return i
}

func TestTrustHostKey(t *testing.T) {
	old, presented, other := newKey(t, 'a'), newKey(t, 'b'), newKey(t, 'c')
	for _, tc := range []struct {
		name     string
		instance *v1alpha1.WindowsInstance
		args     []string
		code     int
		want     string
		patched  bool
	}{
		{"fingerprint", changed(instance("w1", ""), old, presented), []string{"--yes", "--fingerprint", ssh.FingerprintSHA256(presented)}, 0, "windowsinstance/w1 trusts ssh-ed25519 " + ssh.FingerprintSHA256(presented) + "\n", true},
		{"key", changed(instance("w1", ""), old, presented), []string{"--yes", "--key", keyLine(presented) + " comment"}, 0, "trusts ssh-ed25519", true},
		{"another fingerprint", changed(instance("w1", ""), old, presented), []string{"--yes", "--fingerprint", ssh.FingerprintSHA256(other)}, 1, "that is another key", false},
		{"another key", changed(instance("w1", ""), old, presented), []string{"--yes", "--key", keyLine(other)}, 1, "that is another key", false},
		{"no key", changed(instance("w1", ""), old, presented), []string{"--yes", "--key", "nope"}, 1, "--key is no public key", false},
		{"not compared", changed(instance("w1", ""), old, presented), []string{"--yes"}, 1, "--yes needs --fingerprint or --key", false},
		{"nobody to ask", changed(instance("w1", ""), old, presented), nil, 1, "nobody can be asked here", false},
		{"key in order", instance("w1", ""), []string{"--yes", "--fingerprint", ssh.FingerprintSHA256(old)}, 1, "has not presented another key", false},
		{"key that nobody has seen", instance("w1", ""), []string{"--yes", "--key", keyLine(old)}, 1, "needs a key that the host has presented", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAPI(t, tc.instance)
			a.handle(http.MethodPatch, "instance", func(w http.ResponseWriter, r *http.Request) { answer(w, tc.instance) })
			a.run(append([]string{"trust-host-key", "w1"}, tc.args...)...).want(t, tc.code, tc.want)
			if patched := len(a.asked("PATCH")) > 0; patched != tc.patched {
				t.Fatalf("patched is %v, want %v", patched, tc.patched)
			}
			if !tc.patched {
				return
			}
			var got, want any
			if err := json.Unmarshal([]byte(a.body("PATCH")), &got); err != nil {
				t.Fatal(err)
			}
			want = map[string]any{"metadata": map[string]any{"uid": "w1"}, "spec": map[string]any{"hostKeys": []any{keyLine(presented)}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAskForKey(t *testing.T) {
	old, presented := newKey(t, 'a'), newKey(t, 'b')
	for _, tc := range []struct {
		typed string
		want  bool
	}{
		{"yes\n", true}, {"yes", true}, {"y\n", false}, {"\n", false}, {"", false},
	} {
		var out output.Buffer
		e := &env{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(tc.typed), Out: io.Discard, ErrOut: &out}}
		err := askForKey(t.Context(), e, target{changed(instance("w1", ""), old, presented)}, presented)
		if (err == nil) != tc.want {
			t.Errorf("%q: got %v, want accepted to be %v", tc.typed, err, tc.want)
		}
		for _, key := range []ssh.PublicKey{old, presented} {
			if !strings.Contains(out.String(), ssh.FingerprintSHA256(key)) {
				t.Errorf("a fingerprint is missing in\n%s", out.String())
			}
		}
	}
}

// TestAskForFirstKey: who decides about a host that nothing is recorded of sees with what others know it.
func TestAskForFirstKey(t *testing.T) {
	old, presented := newKey(t, 'a'), newKey(t, 'b')
	i := changed(instance("w1", ""), old, presented)
	i.Spec.HostKeys, i.Status.HostKeys = nil, nil
	i.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionHostKeyTrusted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHostKeyChanged,
		Message: "10.1.42.1:22 presents another key than WMCO has met it with. Either it was reinstalled or not. And so on",
	}}
	var out output.Buffer
	e := &env{IOStreams: genericiooptions.IOStreams{In: strings.NewReader("yes"), Out: io.Discard, ErrOut: &out}}
	if err := askForKey(t.Context(), e, target{i}, presented); err != nil {
		t.Error(err)
	}
	if want := "\n  10.1.42.1:22 presents another key than WMCO has met it with.\n  trusted so far:"; !strings.Contains(out.String(), want) || strings.Contains(out.String(), "Either") {
		t.Errorf("got\n%s", out.String())
	}
}

func TestVersion(t *testing.T) {
	a := newAPI(t)
	a.handle(http.MethodGet, "/version", func(w http.ResponseWriter, r *http.Request) { answer(w, map[string]string{"gitVersion": "v1.37.1"}) })
	a.run("version").want(t, 1, "kubectl-windows: ", "windows.openshift.io/v1alpha1", "v1.37.1", "the release of windows-apiserver is not known", "kubectl get apiservice v1alpha1.windows.openshift.io")
	says := "v1alpha1"
	a.handle(http.MethodGet, "/openapi/v3/apis/windows.openshift.io/v1alpha1", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"openapi": "3.0.0", "info": map[string]string{"title": "Windows instances", "version": says}})
	})
	a.run("version").want(t, 0, "windows-apiserver: not known, of a release before this one\n")
	says = "v1.2.3"
	a.run("version").want(t, 0, "kubectl-windows: ", "windows-apiserver: v1.2.3\n", "windows.openshift.io/v1alpha1", "v1.37.1")
	got := a.run("version", "--client", "-o", "json")
	got.want(t, 0, `"api": "windows.openshift.io/v1alpha1"`)
	if strings.Contains(got.stdout, "kubernetes") {
		t.Errorf("got %s", got.stdout)
	}
	a.run("version", "-o", "nope").want(t, 1, "must be json or yaml")
}
