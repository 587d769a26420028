// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/output"
	"github.com/openshift/windows-instance-api/test/standin"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// notRun is how commands of the documents begin that are not run, and why.
var notRun = map[string]string{
	"git clone ":                            "needs the network",
	"cd ":                                   "belongs to git clone",
	"go test ":                              "runs tests in tests",
	"TESTFLAGS=":                            "runs tests in tests",
	"hack/build-payload.sh ":                "takes minutes; TestBuildPayloadOut has its arguments",
	"kubectl windows trust-host-key":        "asks about another key than before, which no host here has; TestTrustHostKey",
	"kubectl annotate wi ":                  "is for a disk that was moved, which none here was; TestConfigure/calm/address changed",
	"kubectl annotate machinehealthchecks.": "needs a MachineHealthCheck; TestOpenShiftPlatforms",
	"kubectl patch machinehealthchecks.":    "as above",
	"kubectl label node win-9 ":             "is for a host whose instance is gone; TestReconcileHostOfAnotherNamespace",
	"kubectl windows exec win-1 ":           "needs a shell of Windows",
	"kubectl get --raw \"$LOG?query=kubelet&previous=true\"": "nothing was rotated yet; TestLogOptions",
	"kubectl windows cancel ":                                "by then nothing is left to cancel; TestPluginOperations",
	"ID=":                                                    "as above",
	"echo \"{\\\"spec\\\":{\\\"operationID":                  "as above",
	"kubectl apply -k ":                                      "installs what runs here already; TestInstallAndUninstall, TestOpenShift",
	"kubectl apply -f artifacts/openshift/cluster-api.yaml":  "needs a namespace of Cluster API; TestOpenShift/user_data",
	"kubectl rollout status ":                                "belongs to the installation, whose pods need kubelets",
	"kubectl rollout restart ":                               "likewise",
	"kubectl cp ":                                            "needs a kubelet",
	"kubectl wait --for=condition=Ready pod/":                "likewise",
	"kubectl exec windows-apiserver-data ":                   "likewise",
	"kubectl set image ":                                     "replaces what runs here; needs two releases: TestUpgrade",
	"kubectl scale deployment windows-controller ":           "ends what the other commands ask",
	"kubectl scale statefulset windows-apiserver ":           "likewise",
	"kubectl windows rollout restart ":                       "restarts hosts that the other commands ask; TestRollout",
	"kubectl delete apiservice ":                             "removes what the other commands ask",
	"kubectl delete -k ":                                     "removes what the other commands ask; TestInstallAndUninstall",
	"kubectl delete -f artifacts/":                           "likewise",
	"kubectl create secret generic windows-":                 "belongs to the installation",
	"kubectl create secret generic cloud-private-key " + inPlace + " --from-file=":                                       "belongs to the installation; to another key: TestSurviveController, TestRotateFleet, TestOpenShiftMachine",
	"kubectl patch wnp windows-instances " + inPlace + ` --type=merge -p '{"spec":{"updateStrategy":{"type":"OnRequest"`: "is for hosts that are adopted; TestAdopt",
	"kubectl windows adopt ":   "needs a host of WMCO; TestAdopt",
	"kubectl windows release ": "gives a host to WMCO; TestAdopt",
	"oc ":                      "needs WMCO; TestAdopt",
}

// inPlace is where the documents have our programs, and the hosts of WMCO.
const inPlace = "-n openshift-windows-machine-config-operator"

// endless matches commands that go on until Ctrl-C.
var endless = regexp.MustCompile(`--watch|logs .* -f( |$)|follow=true|port-forward|windows rdp`)

// TestDocuments runs the commands that the documents show, line by line and in their order, and
// applies the manifests among them. A block is told by its language: none is for commands. Each
// win-N that a document names is a host, and 10.1.42.N is its address. That of win-7 has the
// instance that the user guide makes, win-9 one of its own, the others are in the ConfigMap.
func TestDocuments(t *testing.T) {
	t.Parallel()
	documents := readDocuments(t)
	// What the documents have readers write, here or in a run that was killed.
	removeWritten := func() {
		if err := os.RemoveAll(filepath.Join("..", "..", "windows-support")); err != nil {
			t.Error(err)
		}
	}
	removeWritten()
	t.Cleanup(removeWritten)
	d := &documented{site: newSite(t, standin.PayloadOptions{Bytes: 1 << 20}), hosts: map[string]*siteHost{}}
	d.start(t, documents)
	for _, path := range slices.Sorted(maps.Keys(documents)) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			variables := []string{}
			for _, b := range documents[path] {
				variables = d.runBlock(t, b, variables)
			}
		})
	}
}

// block is a block of a document between fences.
type block struct {
	line           int
	language, text string
}

// readDocuments returns the blocks of each document.
func readDocuments(t *testing.T) map[string][]block {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	documents := map[string][]block{}
	for _, path := range append(paths, "../../README.md") {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		documents[path] = blocksOf(string(content))
	}
	return documents
}

// blocksOf returns the blocks between the fences of a document.
func blocksOf(document string) []block {
	const fence = "```"
	var blocks []block
	inside := false
	for i, line := range strings.Split(document, "\n") {
		language, isFence := strings.CutPrefix(line, fence)
		switch {
		case isFence && !inside:
			blocks = append(blocks, block{line: i + 2, language: language})
			inside = true
		case isFence:
			inside = false
		case inside:
			blocks[len(blocks)-1].text += line + "\n"
		}
	}
	return blocks
}

// documented is the cluster that the documents talk about.
type documented struct {
	*site
	hosts map[string]*siteHost
}

var (
	hostName     = regexp.MustCompile(`\bwin-(\d)\b`)
	address      = regexp.MustCompile(`\b10\.1\.42\.(\d)\b`)
	assignment   = regexp.MustCompile(`(?m)^[A-Z]+=\S+$`)
	continuation = regexp.MustCompile(`\\\n\s*`)
)

// start starts the hosts and declares what the documents take for granted.
func (d *documented) start(t *testing.T, documents map[string][]block) {
	t.Helper()
	entries := map[string]string{}
	ip := d.HostIP()
	for _, blocks := range documents {
		for _, b := range blocks {
			for _, name := range hostName.FindAllString(b.text, -1) {
				if d.hosts[name] != nil || b.language == "console" {
					continue
				}
				ip = ip.Next()
				h := d.newHost(t, system.Namespace, name, winhost.Options{Address: ip.String(), Port: 22, InProcess: winhost.InProcessOptions{
					EventLog: eventLog{"System": {{RecordID: 1, Time: time.Now(), Message: "It terminated."}}},
				}})
				for _, name := range []string{"kubelet/kubelet.log", "containerd/containerd.log"} {
					writeLog(t, h.host, name, numbered(0))
				}
				d.hosts[name] = h
				switch name {
				case "win-7":
				case "win-9":
					h.namespace = metav1.NamespaceDefault
					h.declare(t, nil)
				default:
					entries[h.host.Address()] = "username=" + h.host.User()
				}
			}
		}
	}
	d.namespace(t, "team-a")
	wantSecretsRefused(d.System, "team-a") // whose instance comes before the binding
	secret, err := d.Kube.CoreV1().Secrets(system.Namespace).Get(t.Context(), "cloud-private-key", metav1.GetOptions{})
	if err == nil {
		_, err = d.Kube.CoreV1().Secrets("team-a").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "build-hosts"}, Data: secret.Data}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = d.Kube.CoreV1().ConfigMaps(system.Namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: sourceName}, Data: entries}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	d.shell(t, "kubectl apply -n openshift-machine-api -f -", machineSetYAML("winworker", windowsLabel, 0))
	for name := range d.hosts {
		if name != "win-7" {
			d.waitForNode(t, name)
		}
	}
}

// here is the text of a document with the names and addresses of this cluster.
func (d *documented) here(text string) string {
	text = address.ReplaceAllStringFunc(text, func(a string) string {
		return d.hosts["win-"+a[len(a)-1:]].host.Address()
	})
	return strings.NewReplacer(
		"NAME", "win-5",
		"instance.example.com", d.hosts["win-6"].host.Address(), "username=core", "username=Administrator",
		"ssh-ed25519 AAAA…", strings.TrimSpace(string(marshalKey(d.hosts["win-7"].host.HostKey()))),
	).Replace(text)
}

// runBlock does with a block what a reader does. It returns the variables that are set by then.
func (d *documented) runBlock(t *testing.T, b block, variables []string) []string {
	switch b.language {
	case "":
	case "yaml":
		t.Run(fmt.Sprintf("line %d", b.line), func(t *testing.T) {
			d.shell(t, "kubectl apply --server-side --force-conflicts -f -", d.here(b.text))
		})
		return variables
	case "json":
		if !json.Valid([]byte(b.text)) {
			t.Errorf("line %d: no JSON:\n%s", b.line, b.text)
		}
		return variables
	case "console", "text", "powershell", "sh": // what is shown, and what runs elsewhere
		return variables
	default:
		t.Errorf("line %d: what is to be done with a block of %q?", b.line, b.language)
		return variables
	}
	for i, command := range strings.Split(continuation.ReplaceAllString(b.text, ""), "\n") {
		if assignment.MatchString(command) {
			variables = append(variables, d.here(command))
			continue
		}
		if command == "" {
			continue
		}
		t.Run(fmt.Sprintf("line %d", b.line+i), func(t *testing.T) {
			for begin, reason := range notRun {
				if strings.HasPrefix(command, begin) {
					t.Skipf("%s: %s", command, reason)
				}
			}
			d.runCommand(t, command, variables)
		})
	}
	return variables
}

// runCommand runs a line of a document when nothing is under way any more and the host is there
// that it names.
func (d *documented) runCommand(t *testing.T, command string, variables []string) {
	t.Helper()
	if name := hostName.FindString(command); name != "" {
		d.waitForNode(t, name)
	}
	eventually(t, "all operations end", func() error {
		list, err := d.Windows.WindowsV1alpha1().WindowsInstances("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if op := list.Items[i].Status.Operation; op.Active() {
				return fmt.Errorf("%s: %s", list.Items[i].Name, describeSteps(op))
			}
		}
		return nil
	})
	if strings.Contains(command, `"window":{`) { // what has not been updated by then waits for its opening
		eventually(t, "all hosts are up to date", func() error {
			pool, err := d.Windows.WindowsV1alpha1().WindowsNodePools(system.Namespace).Get(t.Context(), sourceName, metav1.GetOptions{})
			if err == nil && !meta.IsStatusConditionTrue(pool.Status.Conditions, v1alpha1.ConditionUpdated) {
				err = fmt.Errorf("%d of %d are: %s", pool.Status.UpdatedReplicas, pool.Status.Replicas, pool.Status.BlockedBy)
			}
			return err
		})
	}
	script := strings.Join(append(slices.Clone(variables), d.here(command)), "\n")
	// What make would do is what CI does.
	script = strings.ReplaceAll(script, "make ", "make -n ")
	if endless.MatchString(command) {
		d.interrupted(t, script)
		return
	}
	d.shell(t, script, "exit\n")
}

// waitForNode waits until a host is a Node.
func (d *documented) waitForNode(t *testing.T, name string) {
	t.Helper()
	eventually(t, name+" is a Node", func() error {
		list, err := d.Windows.WindowsV1alpha1().WindowsInstances("").List(t.Context(), metav1.ListOptions{FieldSelector: "status.node.name=" + name})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Status.Phase == v1alpha1.InstanceJoining {
			return apierrors.NewNotFound(v1alpha1.Resource("windowsinstances"), name)
		}
		return nil
	})
}

// command is a script in the shell of a reader.
func (d *documented) command(ctx context.Context, script string) *exec.Cmd {
	return shellOf(ctx, d.System, "../..", "set -o pipefail\n"+script)
}

// shellOf is a script in the shell of somebody who has all rights in a system. What it starts ends with it.
func shellOf(ctx context.Context, s *system.System, dir, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euc", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	path := strings.Join([]string{s.PluginDir(), filepath.Dir(s.KubectlPath()), os.Getenv("PATH")}, string(os.PathListSeparator))
	cmd.Env = slices.Concat(s.KubectlCommand(ctx, s.KubeconfigPath()).Env, []string{"PATH=" + path})
	return cmd
}

// shell runs a script to its end.
func (d *documented) shell(t *testing.T, script, stdin string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := d.command(ctx, script)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s\n%v\n%s", script, err, out)
	}
}

// interrupted runs a script until it has said something.
func (d *documented) interrupted(t *testing.T, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	mustSaySomething(t, d.command(ctx, script))
}

// mustSaySomething runs a command that does not end, until it has said something.
func mustSaySomething(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	script := cmd.Args[len(cmd.Args)-1]
	var out output.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for out.String() == "" {
		select {
		case err := <-ended:
			t.Fatalf("%s\nended: %v", script, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Errorf("%s\nended by itself: %v\n%s", script, err, out.String())
	}
	// Where tests run with SIGINT ignored, as in the background of a shell, so do their children, until they ask for it: kubectl does right after it has said something.
	for waits := true; waits; {
		select {
		case <-ended:
			waits = false
		case <-time.After(time.Second):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // it may have ended
		}
	}
	if strings.Contains(strings.ToLower(out.String()), "error") {
		t.Errorf("%s\n%s", script, out.String())
	}
}
