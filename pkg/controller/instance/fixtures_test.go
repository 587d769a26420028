// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package instance

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/hostkey"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/agentclient"
	"github.com/openshift/windows-instance-api/pkg/host/diagnose"
	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
)

const (
	testNamespace = "windows-hosts"
	homeNamespace = "openshift-windows-machine-config-operator"
	testRevision  = "0123456789abcdef"
	testDigest    = testRevision + "0123456789abcdef0123456789abcdef0123456789abcdef"
)

const gib = 1 << 30

// testNow is when tests happen. It has no fraction of a second, as times in the API have none.
var testNow = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// newKey derives a host key from a name.
func newKey(t testing.TB, name string) host.Key {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	public, ok := ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)
	if !ok {
		t.Fatal("not an Ed25519 key")
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return host.KeyOf(key)
}

// newRSAKey returns an RSA key. It is never used to sign.
func newRSAKey(t testing.TB) host.Key {
	t.Helper()
	key, err := ssh.NewPublicKey(&rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 2047, 1), E: 65537})
	if err != nil {
		t.Fatal(err)
	}
	return host.KeyOf(key)
}

func newInstance(name, address string) *v1alpha1.WindowsInstance {
	return &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: testNamespace, Name: name, UID: types.UID("uid-of-" + name), Generation: 1,
			CreationTimestamp: metav1.NewTime(testNow.Add(-time.Hour)),
		},
		Spec: v1alpha1.WindowsInstanceSpec{Address: address, Port: 22, Username: "Administrator"},
	}
}

func newNode(name, address string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: name}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "KubeletReady", Message: "kubelet is posting ready status"}},
		},
	}
}

// goodFacts are those of a host that nothing speaks against.
func goodFacts() *api.Facts {
	return &api.Facts{
		Agent:  api.Version{Protocol: 1, Version: "v0.1.0", SHA256: testDigest, OS: "windows", Arch: "amd64"},
		Time:   api.TimeFacts{Now: testNow, Zone: "UTC"},
		System: api.SystemFacts{OS: "windows", Architecture: "amd64", Product: "Windows Server 2022 Datacenter", Version: "10.0.20348.2700", Build: 20348, Revision: 2700, Server: true},
		Name:   api.NameFacts{Hostname: "win-1", FQDN: "win-1", NetBIOS: "WIN-1"},
		CPUs:   4,
		Memory: api.MemoryFacts{TotalBytes: 8 * gib, AvailableBytes: 4 * gib},
		Disks:  []api.Disk{{Path: `C:\`, System: true, FileSystem: "NTFS", TotalBytes: 120 * gib, FreeBytes: 80 * gib}},
		Boot:   api.BootFacts{Time: testNow.Add(-24 * time.Hour), UptimeSeconds: 86400},
		User:   api.UserFacts{Name: `WIN-1\Administrator`, Administrator: true, Elevated: true},
	}
}

// conditionsOf writes the conditions of a status as type=status/reason.
func conditionsOf(status *v1alpha1.WindowsInstanceStatus) []string {
	var out []string
	for _, c := range status.Conditions {
		out = append(out, c.Type+"="+string(c.Status)+"/"+c.Reason)
	}
	return out
}

func messageOf(t testing.TB, status *v1alpha1.WindowsInstanceStatus, condition string) string {
	t.Helper()
	c := meta.FindStatusCondition(status.Conditions, condition)
	if c == nil {
		t.Fatalf("there is no condition %s", condition)
	}
	return c.Message
}

// journal notes what happened in which order.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) add(entry string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry)
}

// take returns the entries since the last call.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.entries
	j.entries = nil
	return out
}

// scriptedHost is how one address behaves. It is guarded by scriptedHosts.mu.
type scriptedHost struct {
	key host.Key
	// others are the keys of other types that it has.
	others    []host.Key
	machine   string
	addresses []string
	// answers is which of them is logged in to. Empty: the first one.
	answers string
	fail    map[diagnose.Stage]error
	facts   *api.Facts
	// through is the bastion that it is logged in to through. Empty: that of the instance, if it has one.
	through string
	// hang has every step but Resolve wait for the end of its context.
	hang bool
	// accepts is the fingerprint of the key that it accepts, wants that of its Secret.
	accepts, wants string
	// loses are the fingerprints of the compromised keys that its Secret has besides.
	loses []string
	// certified: it accepts a certificate of that key.
	certified bool
	// rotation is what it is to have. Nil: nobody can say.
	rotation *host.Rotation
	// refuses is why it cannot be given the key.
	refuses error
	// elsewhere: its sshd does not take keys from where they belong.
	elsewhere bool
}

// scriptedHosts is a [Hosts] that does what it is told and notes what it is asked.
type scriptedHosts struct {
	journal *journal
	// entered receives an address for each step that hangs.
	entered chan string
	// now is the clock of every host.
	now func() time.Time

	mu        sync.Mutex
	byAddress map[string]*scriptedHost
	forgotten []string
	revision  string
}

var _ Hosts = (*scriptedHosts)(nil)

func newScriptedHosts(j *journal, now func() time.Time) *scriptedHosts {
	return &scriptedHosts{journal: j, now: now, entered: make(chan string, 1000), byAddress: map[string]*scriptedHost{}, revision: testRevision}
}

// set changes how an address behaves.
func (s *scriptedHosts) set(address string, change func(*scriptedHost)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.byAddress[address]
	if !ok {
		h = &scriptedHost{addresses: []string{address}, fail: map[diagnose.Stage]error{}, facts: goodFacts()}
		s.byAddress[address] = h
	}
	change(h)
}

func (s *scriptedHosts) begin(ctx context.Context, at diagnose.Stage, instance *v1alpha1.WindowsInstance) (scriptedHost, error) {
	s.journal.add(string(at) + " " + instance.Name)
	s.mu.Lock()
	h, ok := s.byAddress[instance.Spec.Address]
	if !ok {
		s.mu.Unlock()
		return scriptedHost{}, &hostssh.Error{Layer: hostssh.LayerConnect, Reason: hostssh.ReasonHostUnreachable}
	}
	copied, err := *h, h.fail[at]
	s.mu.Unlock()
	if copied.hang && at != diagnose.StageResolve {
		s.entered <- instance.Spec.Address
		<-ctx.Done()
		reason := hostssh.ReasonCanceled
		if ctx.Err() == context.DeadlineExceeded {
			reason = hostssh.ReasonTimedOut
		}
		return copied, &hostssh.Error{Layer: hostssh.LayerConnect, Reason: reason, Err: ctx.Err()}
	}
	return copied, err
}

func (s *scriptedHosts) Resolve(ctx context.Context, instance *v1alpha1.WindowsInstance) ([]netip.Addr, error) {
	h, err := s.begin(ctx, diagnose.StageResolve, instance)
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, address := range h.addresses {
		out = append(out, netip.MustParseAddr(address))
	}
	return out, nil
}

func (s *scriptedHosts) HostKey(ctx context.Context, instance *v1alpha1.WindowsInstance) (host.Key, error) {
	h, err := s.begin(ctx, diagnose.StageHostKey, instance)
	for _, key := range slices.Concat(h.others, []host.Key{h.key}) {
		if err == nil && slices.ContainsFunc(instance.Status.HostKeys, func(k v1alpha1.HostKeyStatus) bool { return k.Type == key.Type() }) {
			return key, nil
		}
	}
	return h.key, err
}

func (s *scriptedHosts) Login(ctx context.Context, instance *v1alpha1.WindowsInstance) (host.Peer, error) {
	h, err := s.begin(ctx, diagnose.StageLogin, instance)
	if err != nil {
		return host.Peer{}, err
	}
	if err := verifyAs(h.key, instance); err != nil {
		return host.Peer{}, err
	}
	return host.Peer{Address: netip.MustParseAddr(cmp.Or(h.answers, h.addresses[0])), Bastion: cmp.Or(h.through, instance.Spec.Bastion.Endpoint()), Key: h.key, Accepted: h.accepts, Certified: h.certified, Wanted: h.wants, Loses: h.loses}, nil
}

func (s *scriptedHosts) Rotation(_ context.Context, instance *v1alpha1.WindowsInstance, peer host.Peer) (host.Rotation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.byAddress[instance.Spec.Address]; h != nil && h.rotation != nil {
		r := *h.rotation
		if r.Current == nil {
			r.Current = []host.Key{r.Key}
		}
		r.Certified = peer.Certified && peer.Accepted == r.Key.Fingerprint()
		return r, nil
	}
	return host.Rotation{}, errors.New("the API server is away")
}

// RotateKey has the host accept the key from then on, and no other.
func (s *scriptedHosts) RotateKey(_ context.Context, instance *v1alpha1.WindowsInstance, r host.Rotation, accepted string) (removed bool, err error) {
	s.journal.add("RotateKey " + instance.Name + " from " + accepted + " to " + r.Key.Fingerprint())
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.byAddress[instance.Spec.Address]
	if h.refuses == nil {
		h.accepts = r.Key.Fingerprint()
	}
	return h.refuses == nil && !h.elsewhere && len(r.Former) > 0, h.refuses
}

func (s *scriptedHosts) AgentDigest(_ context.Context, instance *v1alpha1.WindowsInstance) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.byAddress[instance.Spec.Address]; h != nil {
		return h.facts.Agent.SHA256, nil
	}
	return "", &hostssh.Error{Layer: hostssh.LayerConnect, Reason: hostssh.ReasonHostUnreachable}
}

func (s *scriptedHosts) Facts(ctx context.Context, instance *v1alpha1.WindowsInstance) (*api.Facts, error) {
	h, err := s.begin(ctx, diagnose.StageFacts, instance)
	if err != nil {
		return nil, err
	}
	facts := *h.facts
	facts.Time.Now, facts.Agent.MachineID, facts.Agent.SHA256 = s.now(), h.machine, ""
	if !v1alpha1.SameMachine(instance.Machine(), h.machine) {
		return nil, &agentclient.AnotherHostError{Want: instance.Machine(), Found: h.machine}
	}
	return &facts, verifyAs(h.key, instance)
}

func (s *scriptedHosts) Agent() (version, digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "v0.1.0", s.revision
}

func (s *scriptedHosts) Forget(instance *v1alpha1.WindowsInstance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten = append(s.forgotten, instance.Spec.Address)
}

func (s *scriptedHosts) takeForgotten() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.forgotten
	s.forgotten = nil
	return out
}

// verifyAs verifies a host key as the connection pool does.
func verifyAs(presented host.Key, instance *v1alpha1.WindowsInstance) error {
	key, _ := hostkey.Parse(presented.String()) // nil for a host without one
	var pinned []ssh.PublicKey
	for line := range strings.SplitSeq(pinsOf(instance), "\n") {
		if key, err := hostkey.Parse(line); err == nil {
			pinned = append(pinned, key)
		}
	}
	if len(pinned) == 0 {
		return &hostssh.Error{Layer: hostssh.LayerHostKey, Reason: hostssh.ReasonHostKeyUnknown, Err: &hostssh.HostKeyError{Presented: key}}
	}
	if !slices.ContainsFunc(pinned, func(k ssh.PublicKey) bool { return host.KeyOf(k) == presented }) {
		return &hostssh.Error{Layer: hostssh.LayerHostKey, Reason: hostssh.ReasonHostKeyChanged, Err: &hostssh.HostKeyError{Presented: key, Pinned: pinned}}
	}
	return nil
}

// scriptedRotations lets hosts get another key unless they have to wait.
type scriptedRotations struct {
	journal *journal
	wait    string
}

func (s *scriptedRotations) Begin(_ context.Context, instance *v1alpha1.WindowsInstance, _ string) (end func(), wait string, err error) {
	if s.wait != "" {
		return nil, s.wait, nil
	}
	return func() { s.journal.add("rotated " + instance.Name) }, "", nil
}
