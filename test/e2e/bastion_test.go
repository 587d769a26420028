// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/test/system"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/opensshd"
)

// bastionSection is where the user guide has bastions.
const bastionSection = "Hosts behind a bastion"

// bastionConfig is what the user guide has for the sshd_config of a bastion, with this host as the only one.
func bastionConfig(t *testing.T, host winhost.Host) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(blocksBelow(t, bastionSection)[0].text) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "Match User "): // nobody else logs in to this one
		case strings.HasPrefix(line, "PermitOpen "):
			lines = append(lines, fmt.Sprintf("PermitOpen %s:%d", host.Address(), host.Port()))
		default:
			lines = append(lines, line)
		}
	}
	if !slices.Contains(lines, "ForceCommand /bin/false") {
		t.Fatalf("the user guide has %q", lines)
	}
	return lines
}

// TestBastion has the hosts of a pool behind an OpenSSH server, by the commands of the user guide: both programs reach them
// through it, and never without.
func TestBastion(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	lendCredentials(t, sys, ns)
	g := &guided{System: sys, dir: t.TempDir(), names: strings.NewReplacer("-n $NS", "-n "+ns, "=$NS:", "="+system.Namespace+":")}
	commands := console(t, bastionSection)
	g.run(t, commands, "ssh-keygen ", "kubectl create secret ", "kubectl create role ", "kubectl create rolebinding ")
	g.mustHaveRun(t, commands)
	signer := g.key(t, "jump")
	host := startHost(t, winhost.Options{})
	bastion := opensshd.Start(t, opensshd.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}, Config: bastionConfig(t, host)})
	kubectlIn(t, fmt.Sprintf(`apiVersion: windows.openshift.io/v1alpha1
kind: WindowsNodePool
metadata: {name: edge}
spec:
  source: {instances: {}}
  template:
    bastion: {address: %s, port: %d, username: %s, hostKeys: [%q], credentialsSecretRef: {name: jump}}
`, bastion.Host, bastion.Port, bastion.User, keyLine(bastion.HostKey())), "apply", "-n", ns, "-f", "-").ok(t)
	createInstance(t, ns, "w", host, ", poolRef: {name: edge}")
	instance := waitFor(t, ns, "w", keyFirstUse, loggedIn, preflightPassed)
	if instance.Status.Bastion != bastion.Addr() || instance.Status.HostIP != host.Address() {
		t.Errorf("found at %q through %q, want %q through %q", instance.Status.HostIP, instance.Status.Bastion, host.Address(), bastion.Addr())
	}
	mustSay(t, messageOf(t, instance, v1alpha1.ConditionReachable), "through bastion "+bastion.Addr())

	writeLog(t, host, "kubelet/kubelet.log", numbered(0)+numbered(1))
	for _, tc := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"exec", "w", "--", "hostname"}, 0, nil},
		{[]string{"logs", "w", "kubelet", "--tail=1"}, 0, []string{numbered(1)}},
		{[]string{"check", "w"}, 0, []string{"Bastion", bastion.Host, "user " + bastion.User, "from the bastion"}},
		{[]string{"describe", "w"}, 0, []string{bastion.Addr() + ", of the pool"}},
	} {
		stdout, stderr, code := plugin(t, sys, append(tc.args[:2:2], append([]string{"-n", ns}, tc.args[2:]...)...)...)
		if code != tc.code {
			t.Errorf("%v: exit code %d, want %d\n%s\n%s", tc.args, code, tc.code, stdout, stderr)
		}
		mustSay(t, stdout+stderr, tc.want...)
	}

	// The host itself stays in reach, and nobody goes there.
	bastion.Stop()
	if stdout, stderr, code := plugin(t, sys, "exec", "w", "-n", ns, "--", "hostname"); code == 0 || !strings.Contains(stderr, "Bastion") {
		t.Errorf("exec without the bastion: exit code %d\n%s\n%s", code, stdout, stderr)
	}
	if stdout, stderr, code := plugin(t, sys, "check", "w", "-n", ns); code != 2 || !strings.Contains(stdout, v1alpha1.ReasonBastionUnreachable) {
		t.Errorf("check without the bastion: exit code %d\n%s\n%s", code, stdout, stderr)
	}
}
