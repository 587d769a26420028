// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/output"
)

// in is an instance in another namespace.
func in(namespace string, i *v1alpha1.WindowsInstance) *v1alpha1.WindowsInstance {
	i.Namespace = namespace
	return i
}

// failing makes a server on which what is done to host w2 fails, and is refused for host w0.
func failing(t *testing.T, instances ...*v1alpha1.WindowsInstance) *api {
	a := newAPI(t, instances...)
	for _, action := range []string{"drain", "reboot", "reconfigure", "adopt", "release"} {
		a.handle(http.MethodPost, action, func(w http.ResponseWriter, r *http.Request) {
			phase := v1alpha1.OperationSucceeded
			if r.PathValue("name") == "w0" {
				refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "w0", "it was done before")
				return
			}
			if r.PathValue("name") == "w2" {
				phase = v1alpha1.OperationFailed
			}
			answer(w, v1alpha1.WindowsInstanceDrain{
				TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "WindowsInstance" + strings.ToUpper(action[:1]) + action[1:]},
				Status:   v1alpha1.ActionStatus{Operation: operation("op", v1alpha1.OperationDrain, phase, "boom")},
			})
		})
	}
	return a
}

// TestFirstFailureEnds: after a drain or a reboot that failed no other host is begun, and the error has the command for those that are left.
func TestFirstFailureEnds(t *testing.T) {
	fleet := func() []*v1alpha1.WindowsInstance {
		return []*v1alpha1.WindowsInstance{inPool(instance("w0", ""), "b"), inPool(instance("w1", ""), "a"), inPool(instance("w2", ""), "a"), inPool(instance("w3", ""), "a"), inPool(instance("w4", ""), "a")}
	}
	for _, tt := range []struct {
		name  string
		args  []string
		begun string
		want  []string
	}{
		{"drain of a pool", []string{"drain", "--pool=a", "--grace-period=1"}, "w1 w2", []string{"1 of 4 hosts did not succeed; not begun after that: 2 hosts; to go on with the rest: kubectl windows drain wi/w3 wi/w4 -n hosts --grace-period=1 "}},
		{"reboot of some", []string{"reboot", "w3", "w2", "w1", "--mode=ifpending", "--pod-selector=a in (b)"}, "w2 w3", []string{"not begun after that: 1 host;", "kubectl windows reboot wi/w1 -n hosts ", "--mode=IfPending", "--pod-selector='a in (b)'"}},
		{"reconfiguration of a pool", []string{"reconfigure", "--pool=a"}, "w1 w2", []string{"to go on with the rest: kubectl windows reconfigure wi/w3 wi/w4 -n hosts"}},
		{"adoption of a pool", []string{"adopt", "--pool=a"}, "w1 w2", []string{"to go on with the rest: kubectl windows adopt wi/w3 wi/w4 -n hosts"}},
		{"release of a pool", []string{"release", "--pool=a"}, "w1 w2", []string{"to go on with the rest: kubectl windows release wi/w3 wi/w4 -n hosts"}},
		{"adoption of some that is repeated", []string{"adopt", "w0", "w1", "w2", "w3"}, "w0 w1 w2", []string{"2 of 4 hosts did not succeed; not begun after that: 1 host;"}},
		{"drain that is refused", []string{"drain", "w0", "w1"}, "w0", []string{"not begun after that: 1 host;"}},
		{"a failure of the last one", []string{"drain", "w1", "w2"}, "w1 w2", []string{"1 of 2 hosts did not succeed\n"}},
		{"a dry run asks all of them", []string{"drain", "w2", "w3", "--dry-run=server"}, "w2 w3", nil},
		{"as do other commands", []string{"uncordon", "w2", "w3"}, "w2 w3", []string{"2 of 2 hosts did not succeed\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := failing(t, fleet()...)
			a.handle(http.MethodPost, "uncordon", func(w http.ResponseWriter, r *http.Request) {
				refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, r.PathValue("name"), "no")
			})
			got := a.run(tt.args...)
			for _, text := range tt.want {
				if !strings.Contains(got.stderr, text) {
					t.Errorf("it does not say %q:\n%s", text, got.stderr)
				}
			}
			var begun []string
			for _, name := range []string{"w0", "w1", "w2", "w3", "w4"} {
				if len(a.asked(name+"/"+tt.args[0])) > 0 {
					begun = append(begun, name)
				}
			}
			if got := strings.Join(begun, " "); got != tt.begun {
				t.Errorf("it began %q, want %q", got, tt.begun)
			}
		})
	}
}

// TestBusyHostKeepsNoOther: a host that another operation runs on keeps no other from being adopted.
func TestBusyHostKeepsNoOther(t *testing.T) {
	busy := instance("w0", "")
	busy.Status.Operation = operation("op", v1alpha1.OperationDrain, v1alpha1.OperationRunning, "")
	a := failing(t, busy, instance("w1", ""))
	if got := a.run("adopt", "w0", "w1"); len(a.asked("w1/adopt")) != 1 {
		t.Errorf("the other one was not asked for:\n%s", got.stderr)
	}
}

// TestInterruptedNamesTheRest: after Ctrl-C only what was begun goes on, and the command says for which hosts it was not.
func TestInterruptedNamesTheRest(t *testing.T) {
	a := failing(t, inPool(instance("w1", ""), "a"), inPool(instance("w2", ""), "a"), inPool(instance("w3", ""), "a"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a.handle(http.MethodPost, "drain", func(w http.ResponseWriter, r *http.Request) {
		cancel()
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, r.PathValue("name"), "no")
	})
	got := a.runIn(ctx, "hosts", "", "drain", "--pool=a")
	if want := "not begun: 2 hosts; to go on with the rest: kubectl windows drain wi/w2 wi/w3 -n hosts"; !strings.Contains(got.stderr, want) || len(a.asked("POST")) != 1 {
		t.Errorf("it does not say %q:\n%s", want, got.stderr)
	}
}

// TestGoOnInNamespaces: hosts of several namespaces need a command each, and no secret of the command line is repeated.
func TestGoOnInNamespaces(t *testing.T) {
	a := failing(t, in("a", instance("w2", "")), in("b", instance("w3", "")), in("c", instance("w4", "")))
	got := a.runIn(t.Context(), "", "", "reboot", "-A", "--yes", "--token=hunter2", "--as=alice", "--as-group=g1", "--as-group=g2")
	got.want(t, ExitOperationFailed, "kubectl windows reboot wi/w3 -n b --", "; kubectl windows reboot wi/w4 -n c --", "--server=http", "--as=alice --as-group=g1 --as-group=g2")
	for _, never := range []string{"hunter2", "--all-namespaces", "--yes"} {
		if strings.Contains(got.stderr, never) {
			t.Errorf("it says %q:\n%s", never, got.stderr)
		}
	}
}

// TestEverythingNeedsYes: a slip of -A drains no cluster.
func TestEverythingNeedsYes(t *testing.T) {
	const all = "-A without --pool or a selector would "
	for _, tt := range []struct {
		args    []string
		refused string // why. Empty: it is not
	}{
		{[]string{"drain", "-A"}, all + "drain 3 hosts in 2 namespaces"},
		{[]string{"reboot", "-A"}, all + "reboot 3 hosts in 2 namespaces"},
		{[]string{"reboot", "-A", "--wait=false"}, "with --wait=false this would reboot 3 hosts in 2 namespaces at the same time"},
		{[]string{"drain", "w1", "w3", "-n", "a", "--wait=false"}, "with --wait=false this would drain 2 hosts in 1 namespace at the same time"},
		{[]string{"drain", "w1", "-n", "a", "--wait=false"}, ""},
		{[]string{"reconfigure", "-A"}, all + "reconfigure 3 hosts in 2 namespaces"},
		{[]string{"adopt", "-A"}, all + "adopt 3 hosts in 2 namespaces"},
		{[]string{"release", "-A"}, all + "release 3 hosts in 2 namespaces"},
		{[]string{"uncordon", "-A"}, all + "uncordon 3 hosts in 2 namespaces"},
		{[]string{"cancel", "-A"}, all + "end the operations of 3 hosts in 2 namespaces"},
		{[]string{"reboot", "-A", "--pool=q"}, "-A with --pool=q would reboot 2 hosts in 2 namespaces, and nobody can be asked here: name the namespace of the pool with -n, or add --yes"},
		{[]string{"uncordon", "-A", "--pool=q"}, "-A with --pool=q would uncordon 2 hosts in 2 namespaces"},
		{[]string{"reboot", "-n", "a", "--pool=q"}, ""},
		{[]string{"uncordon", "-A", "--yes"}, ""},
		{[]string{"uncordon", "-A", "-l", "rack=r1", "--wait=false"}, ""},
		{[]string{"uncordon", "w1", "w3", "-n", "a", "--wait=false"}, ""},
		{[]string{"uncordon", "-A", "--dry-run=server"}, ""},
		{[]string{"reconfigure", "w1", "w3", "-n", "a"}, ""},
		{[]string{"drain", "-A", "--yes"}, ""},
		{[]string{"drain", "-A", "--pool=p"}, ""},
		{[]string{"drain", "-A", "-l", "rack=r1"}, ""},
		{[]string{"drain", "-A", "--dry-run=server"}, ""},
		{[]string{"drain", "w1", "w3", "-n", "a"}, ""},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			hosts := []*v1alpha1.WindowsInstance{in("a", inPool(instance("w1", ""), "p")), in("a", inPool(instance("w3", ""), "q")), in("b", inPool(instance("w4", ""), "q"))}
			hosts[0].Labels = map[string]string{"rack": "r1"}
			a := failing(t, hosts...)
			got := a.runIn(t.Context(), "", "", tt.args...)
			if asked := len(a.asked("POST")); (tt.refused != "") != (asked == 0) {
				t.Errorf("it requested %d operations:\n%s", asked, got.stderr)
			}
			if tt.refused != "" {
				got.want(t, ExitFailure, tt.refused, "--yes")
			}
		})
	}
}

// TestReconfigureOfUnconfirmed: what hosts were to have, whose objects were lost, is overwritten only on hosts that somebody names, or
// with --yes, and not without a word.
func TestReconfigureOfUnconfirmed(t *testing.T) {
	for _, tt := range []struct {
		args    []string
		refused bool
		say     string
	}{
		{[]string{"reconfigure", "--pool=p"}, true, "w1 waits for a confirmation of what to have, because it may be lost, and gets what is desired now (condition UpToDate), and nobody can be asked here: name those that are to get it, or add --yes"},
		{[]string{"reconfigure", "--pool=p", "--yes"}, false, "w1 waits for a confirmation"},
		{[]string{"reconfigure", "w1", "w3"}, false, "w1 waits for a confirmation"},
		{[]string{"reconfigure", "w1"}, false, "w1 waits for a confirmation"},
		{[]string{"reconfigure", "-A"}, true, "-A without --pool or a selector would reconfigure 2 hosts in 1 namespace. w1 waits for a confirmation"},
		{[]string{"reconfigure", "w3"}, false, ""},
		{[]string{"reconfigure", "--pool=p", "--dry-run=server"}, false, ""},
		{[]string{"drain", "--pool=p"}, false, ""},
		{[]string{"adopt", "--pool=p"}, false, ""},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			lost := inPool(instance("w1", "node-1"), "p")
			lost.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionUpToDate, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonConfirmationNeeded}}
			a := failing(t, lost, inPool(instance("w3", ""), "p"))
			got := a.run(tt.args...)
			if asked := len(a.asked("POST")); tt.refused != (asked == 0) || tt.refused != (got.code == ExitFailure) {
				t.Errorf("it requested %d operations, exit code %d", asked, got.code)
			}
			if !strings.Contains(got.stderr, tt.say) || tt.say == "" && strings.Contains(got.stderr, "confirmation") {
				t.Errorf("it says\n%swant\n%s", got.stderr, tt.say)
			}
		})
	}
}

func TestAsk(t *testing.T) {
	for _, tt := range []struct {
		typed string
		want  bool
	}{{"yes\n", true}, {"y\n", false}, {"", false}} {
		var out output.Buffer
		e := &env{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(tt.typed), Out: io.Discard, ErrOut: &out}}
		if err := e.ask(t.Context(), "Really? "); (err == nil) != tt.want || out.String() != "Really? " {
			t.Errorf("%q: %v, %q", tt.typed, err, out.String())
		}
	}
}
