// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package validation

import (
	"crypto/dsa" //nolint:staticcheck // to make a key of a type that is refused
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openshift/windows-instance-api/pkg/apis/windows"
)

func TestValidateWindowsInstance(t *testing.T) {
	ed25519Key := hostKey(t, ed25519Public(t))
	bastion := func(change func(*windows.Bastion)) func(*windows.WindowsInstance) {
		return func(i *windows.WindowsInstance) {
			i.Spec.Bastion = validBastion(t)
			change(i.Spec.Bastion)
		}
	}
	for _, test := range []struct {
		name   string
		change func(*windows.WindowsInstance)
		want   []string
	}{
		{"as it should be", func(*windows.WindowsInstance) {}, nil},

		{"name is an address", func(i *windows.WindowsInstance) { i.Name = "10.1.42.1" }, nil},
		{"name is no DNS subdomain", func(i *windows.WindowsInstance) { i.Name = "Win_1" }, []string{"Invalid metadata.name"}},
		{"without a name", func(i *windows.WindowsInstance) { i.Name = "" }, []string{"Required metadata.name"}},
		{"without a namespace", func(i *windows.WindowsInstance) { i.Namespace = "" }, []string{"Required metadata.namespace"}},

		{"address: IPv4", address("192.168.0.1"), nil},
		{"address: IPv6", address("fd00::1"), nil},
		{"address: IPv6 with a zone", address("fe80::1%eth0"), []string{"Invalid spec.address"}},
		{"address: DNS name", address("win-1.example.com"), nil},
		{"address: single label", address("win-1"), nil},
		{"address: upper case", address("WIN-1.Example.COM"), nil},
		{"address: rooted DNS name", address("win-1.example.com."), nil},
		{"address: none (declared as required)", address(""), nil},
		{"address: unspecified IPv4", address("0.0.0.0"), []string{"Invalid spec.address"}},
		{"address: unspecified IPv6", address("::"), []string{"Invalid spec.address"}},
		{"address: multicast", address("224.0.0.1"), []string{"Invalid spec.address"}},
		{"address: IPv4 with a port", address("10.0.0.1:22"), []string{"Invalid spec.address"}},
		{"address: IPv6 with a port", address("[fd00::1]:22"), []string{"Invalid spec.address"}},
		{"address: IPv6 in brackets", address("[fd00::1]"), []string{"Invalid spec.address"}},
		{"address: name with a port", address("win-1:22"), []string{"Invalid spec.address"}},
		{"address: IPv4 that is too long", address("10.0.0.0.1"), []string{"Invalid spec.address"}},
		{"address: IPv4 out of range", address("10.0.0.256"), []string{"Invalid spec.address"}},
		{"address: URL", address("ssh://win-1"), []string{"Invalid spec.address"}},
		{"address: with a user", address("user@win-1"), []string{"Invalid spec.address"}},
		{"address: with a space", address("win 1"), []string{"Invalid spec.address"}},
		{"address: only a dot", address("."), []string{"Invalid spec.address"}},
		{"address: option of ssh", address("-oProxyCommand=x"), []string{"Invalid spec.address"}},

		{"user: of a domain", username(`CORP\svc-win`), nil},
		{"user: principal name", username("svc-win@corp.example.com"), nil},
		{"user: with a space inside", username("svc win"), nil},
		{"user: two backslashes", username(`A\B\c`), []string{"Invalid spec.username"}},
		{"user: with a colon", username("a:b"), []string{"Invalid spec.username"}},
		{"user: with a quote", username(`a"b`), []string{"Invalid spec.username"}},
		{"user: with a line break", username("a\nb"), []string{"Invalid spec.username"}},
		{"user: with a space at the end", username("a "), []string{"Invalid spec.username"}},

		{"host keys: ed25519", keys(ed25519Key), nil},
		{"host keys: with a comment", keys(ed25519Key + " root@win-1"), nil},
		{"host keys: with a line of comment", keys("# read on the console\n" + ed25519Key), nil},
		{"host keys: RSA", keys(hostKey(t, rsaPublic(t, 2048))), nil},
		{"host keys: short RSA", keys(ed25519Key, hostKey(t, rsaPublic(t, 1024))), []string{"Invalid spec.hostKeys[1]"}},
		{"host keys: ECDSA", keys(hostKey(t, ecdsaPublic(t, elliptic.P256())), hostKey(t, ecdsaPublic(t, elliptic.P384())), hostKey(t, ecdsaPublic(t, elliptic.P521()))), nil},
		{"host keys: DSA", keys(hostKey(t, dsaPublic())), []string{"NotSupported spec.hostKeys[0]"}},
		{"host keys: the second is bad", keys(ed25519Key, "ssh-ed25519 AAAA"), []string{"Invalid spec.hostKeys[1]"}},
		{"host keys: without a type", keys(strings.Fields(ed25519Key)[1]), []string{"Invalid spec.hostKeys[0]"}},
		{"host keys: with the host of known_hosts", keys("win-1 " + ed25519Key), []string{"Invalid spec.hostKeys[0]"}},
		{"host keys: with options", keys("no-pty " + ed25519Key), []string{"Invalid spec.hostKeys[0]"}},
		{"host keys: two on a line", keys(ed25519Key + "\n" + ed25519Key), []string{"Invalid spec.hostKeys[0]"}},
		{"host keys: empty", keys(""), []string{"Invalid spec.hostKeys[0]"}},

		{"credentials: bad name", func(i *windows.WindowsInstance) {
			i.Spec.CredentialsSecretRef = &windows.SecretReference{Name: "../x"}
		}, []string{"Invalid spec.credentialsSecretRef.name"}},
		{"credentials: no name (declared as required)", func(i *windows.WindowsInstance) {
			i.Spec.CredentialsSecretRef = &windows.SecretReference{}
		}, nil},
		{"bastion", bastion(func(*windows.Bastion) {}), nil},
		{"bastion: by name", bastion(func(b *windows.Bastion) { b.Address = "jump.example.com" }), nil},
		{"bastion: user of another system", bastion(func(b *windows.Bastion) { b.Username = "svc+jump" }), nil},
		{"bastion: bad address", bastion(func(b *windows.Bastion) { b.Address = "jump:22" }), []string{"Invalid spec.bastion.address"}},
		{"bastion: user with a line break", bastion(func(b *windows.Bastion) { b.Username = "a\nb" }), []string{"Invalid spec.bastion.username"}},
		{"bastion: user with a space before", bastion(func(b *windows.Bastion) { b.Username = " a" }), []string{"Invalid spec.bastion.username"}},
		{"bastion: bad key", bastion(func(b *windows.Bastion) { b.HostKeys = append(b.HostKeys, "nonsense") }), []string{"Invalid spec.bastion.hostKeys[1]"}},
		{"bastion: short key", bastion(func(b *windows.Bastion) { b.HostKeys[0] = hostKey(t, rsaPublic(t, 1024)) }), []string{"Invalid spec.bastion.hostKeys[0]"}},
		{"bastion: bad name of the Secret", bastion(func(b *windows.Bastion) { b.CredentialsSecretRef.Name = "../x" }), []string{"Invalid spec.bastion.credentialsSecretRef.name"}},
		{"name of the node", func(i *windows.WindowsInstance) { i.Spec.NodeName = "win-worker-01" }, nil},
		{"name of the node: too long", func(i *windows.WindowsInstance) { i.Spec.NodeName = "windows-worker-1" }, []string{"Invalid spec.nodeName"}},
		{"name of the node: in capitals", func(i *windows.WindowsInstance) { i.Spec.NodeName = "WIN-1" }, []string{"Invalid spec.nodeName"}},
		{"name of the node: a number", func(i *windows.WindowsInstance) { i.Spec.NodeName = "123" }, []string{"Invalid spec.nodeName"}},
		{"removal: abandon", func(i *windows.WindowsInstance) {
			i.Spec.Removal = &windows.RemovalOptions{Policy: windows.RemovalAbandon, AfterSeconds: new(int64(3600))}
		}, nil},
		{"pool: bad name", func(i *windows.WindowsInstance) {
			i.Spec.PoolRef = &windows.PoolReference{Name: "A"}
		}, []string{"Invalid spec.poolRef.name"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			instance := validInstance()
			test.change(instance)
			check(t, test.want, ValidateWindowsInstance(instance))

			// An update is held to the same rules, but for those of the name and
			// namespace, which cannot change.
			if strings.HasPrefix(strings.Join(test.want, ""), "Required metadata") || strings.HasPrefix(strings.Join(test.want, ""), "Invalid metadata") {
				return
			}
			instance.ResourceVersion = "2"
			old := validInstance()
			old.Name, old.ResourceVersion = instance.Name, "1"
			check(t, test.want, ValidateWindowsInstanceUpdate(instance, old))
		})
	}
}

func TestValidateWindowsInstanceUpdateMeta(t *testing.T) {
	old := validInstance()
	old.UID, old.ResourceVersion = "1", "1"
	changed := old.DeepCopy()
	changed.UID = "2"
	check(t, []string{"Invalid metadata.uid"}, ValidateWindowsInstanceUpdate(changed, old))
	check(t, []string{"Invalid metadata.uid"}, ValidateWindowsInstanceStatusUpdate(changed, old))
}

// What is on a host of ours stays there when another machine takes its place in the spec.
func TestValidateWindowsInstanceUpdateProviderID(t *testing.T) {
	for _, test := range []struct {
		name, machine, before, after string
		want                         []string
	}{
		{"set", "m", "", "aws:///i-1", nil},
		{"the same", "m", "aws:///i-1", "aws:///i-1", nil},
		{"corrected before the host is known", "", "aws:///i-1", "aws:///i-2", nil},
		{"the same, in the spelling of another program", "m", "azure:///subscriptions/1/resourceGroups/RG/x/win-1", "azure:///subscriptions/1/resourceGroups/rg/x/win-1", nil},
		{"completed", "m", "vsphere://", "vsphere://4228e784", nil},
		{"that of another machine", "m", "aws:///i-1", "aws:///i-2", []string{"Forbidden spec.providerID"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := validInstance()
			old.ResourceVersion, old.Spec.ProviderID, old.Status.MachineID = "1", test.before, test.machine
			changed := old.DeepCopy()
			changed.Spec.ProviderID = test.after
			check(t, test.want, ValidateWindowsInstanceUpdate(changed, old))
		})
	}
}

// TestValidateWindowsInstanceUpdateNodeName: a Node cannot be renamed, and its host would wait for a
// Node that does not come.
func TestValidateWindowsInstanceUpdateNodeName(t *testing.T) {
	node := &windows.NodeReference{Name: "win-1"}
	for _, test := range []struct {
		name          string
		node          *windows.NodeReference
		before, after string
		want          []string
	}{
		{"no Node yet", nil, "", "other", nil},
		{"the name of the Node", node, "", "win-1", nil},
		{"the name goes back to that of the Node", node, "other", "win-1", nil},
		{"another name", node, "", "other", []string{"Forbidden spec.nodeName"}},
		{"an earlier release let it pass", node, "other", "other", nil},
		{"the host keeps its name", node, "win-1", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := validInstance()
			old.ResourceVersion, old.Spec.NodeName, old.Status.Node = "1", test.before, test.node
			changed := old.DeepCopy()
			changed.Spec.NodeName = test.after
			check(t, test.want, ValidateWindowsInstanceUpdate(changed, old))
		})
	}
}

// TestValidateWindowsInstanceUpdateLeaving: an instance that is being deleted does not get past the
// limit of removals by saying that its source has deleted it, or by leaving its pool.
func TestValidateWindowsInstanceUpdateLeaving(t *testing.T) {
	const source = "windows.openshift.io/source"
	for _, test := range []struct {
		name    string
		leaving bool
		edit    func(*windows.WindowsInstance)
		want    []string
	}{
		{"a source, of one that stays", false, func(i *windows.WindowsInstance) { i.Annotations = map[string]string{source: "x"} }, nil},
		{"a pool, of one that stays", false, func(i *windows.WindowsInstance) { i.Spec.PoolRef = nil }, nil},
		{"a source", true, func(i *windows.WindowsInstance) { i.Annotations = map[string]string{source: "x"} }, []string{"Forbidden metadata.annotations[windows.openshift.io/source]"}},
		{"no source any more", true, func(i *windows.WindowsInstance) { i.Annotations = nil }, nil},
		{"no pool any more", true, func(i *windows.WindowsInstance) { i.Spec.PoolRef = nil }, []string{"Forbidden spec.poolRef"}},
		{"another pool", true, func(i *windows.WindowsInstance) { i.Spec.PoolRef = &windows.PoolReference{Name: "q"} }, []string{"Forbidden spec.poolRef"}},
		{"given up", true, func(i *windows.WindowsInstance) {
			i.Spec.Removal = &windows.RemovalOptions{Policy: windows.RemovalPolicy("Abandon")}
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := validInstance()
			old.ResourceVersion, old.Spec.PoolRef = "1", &windows.PoolReference{Name: "p"}
			old.Annotations = map[string]string{source: "was"}
			if test.leaving {
				old.DeletionTimestamp, old.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"windows.openshift.io/host"}
			}
			changed := old.DeepCopy()
			test.edit(changed)
			check(t, test.want, ValidateWindowsInstanceUpdate(changed, old))
		})
	}
}

// TestShortKeyThatIsPinned stays where older rules let it in, and so can all else be changed.
func TestShortKeyThatIsPinned(t *testing.T) {
	short := hostKey(t, rsaPublic(t, 1024))
	old := validInstance()
	old.ResourceVersion, old.Spec.HostKeys = "1", []string{short}
	changed := old.DeepCopy()
	changed.Spec.Paused = true
	check(t, nil, ValidateWindowsInstanceUpdate(changed, old))
	changed.Spec.HostKeys = []string{short, hostKey(t, rsaPublic(t, 1024))}
	check(t, []string{"Invalid spec.hostKeys[1]"}, ValidateWindowsInstanceUpdate(changed, old))
	changed.Spec.HostKeys = []string{hostKey(t, ed25519Public(t))}
	check(t, nil, ValidateWindowsInstanceUpdate(changed, old))
}

func TestValidateWindowsInstanceStatusUpdate(t *testing.T) {
	good := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "NodeReady", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}
	with := func(change func(*metav1.Condition)) metav1.Condition {
		c := good
		change(&c)
		return c
	}
	key := strings.Fields(hostKey(t, ed25519Public(t)))
	for _, test := range []struct {
		name   string
		status windows.WindowsInstanceStatus
		want   []string
	}{
		{"empty", windows.WindowsInstanceStatus{}, nil},
		{"condition", windows.WindowsInstanceStatus{Conditions: []metav1.Condition{good}}, nil},
		{"condition twice", windows.WindowsInstanceStatus{Conditions: []metav1.Condition{good, good}}, []string{"Duplicate status.conditions[1]"}},
		{"condition without a type", windows.WindowsInstanceStatus{Conditions: []metav1.Condition{with(func(c *metav1.Condition) { c.Type = "" })}}, []string{"Required status.conditions[0].type"}},
		{"condition without a reason", windows.WindowsInstanceStatus{Conditions: []metav1.Condition{with(func(c *metav1.Condition) { c.Reason = "" })}}, []string{"Required status.conditions[0].reason"}},
		{"reason is a sentence", windows.WindowsInstanceStatus{Conditions: []metav1.Condition{with(func(c *metav1.Condition) { c.Reason = "no way" })}}, []string{"Invalid status.conditions[0].reason"}},
		{"condition with another status", windows.WindowsInstanceStatus{Conditions: []metav1.Condition{with(func(c *metav1.Condition) { c.Status = "Maybe" })}}, []string{"NotSupported status.conditions[0].status"}},
		{"condition without a time", windows.WindowsInstanceStatus{Conditions: []metav1.Condition{with(func(c *metav1.Condition) { c.LastTransitionTime = metav1.Time{} })}}, []string{"Required status.conditions[0].lastTransitionTime"}},
		{"host key", windows.WindowsInstanceStatus{HostKeys: []windows.HostKeyStatus{{Type: key[0], Key: key[1]}}}, nil},
		{"host key that is none", windows.WindowsInstanceStatus{HostKeys: []windows.HostKeyStatus{{Type: key[0], Key: key[1]}, {Type: key[0], Key: "AAAA"}}}, []string{"Invalid status.hostKeys[1].key"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := validInstance()
			old.ResourceVersion = "1"
			instance := old.DeepCopy()
			instance.Status = test.status
			// A spec that older rules let in must not keep the controller from
			// reporting on it.
			instance.Spec.Address = "::"
			check(t, test.want, ValidateWindowsInstanceStatusUpdate(instance, old))
		})
	}
}

func validInstance() *windows.WindowsInstance {
	return &windows.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "win-1", Namespace: "default"},
		Spec: windows.WindowsInstanceSpec{
			Address: "10.1.42.1", Port: 22, Username: "Administrator",
			CredentialsSecretRef: &windows.SecretReference{Name: "my-key"},
			PoolRef:              &windows.PoolReference{Name: "windows-instances"},
		},
	}
}

func address(s string) func(*windows.WindowsInstance) {
	return func(i *windows.WindowsInstance) { i.Spec.Address = s }
}

func username(s string) func(*windows.WindowsInstance) {
	return func(i *windows.WindowsInstance) { i.Spec.Username = s }
}

func keys(lines ...string) func(*windows.WindowsInstance) {
	return func(i *windows.WindowsInstance) { i.Spec.HostKeys = lines }
}

func validBastion(t *testing.T) *windows.Bastion {
	t.Helper()
	return &windows.Bastion{
		Address: "10.0.0.9", Port: 22, Username: "jump", HostKeys: []string{hostKey(t, ed25519Public(t))}, CredentialsSecretRef: windows.SecretReference{Name: "jump"},
	}
}

// check compares errors by type and field.
func check(t *testing.T, want []string, errs field.ErrorList) {
	t.Helper()
	var got []string
	for _, err := range errs {
		got = append(got, errorName[err.Type]+" "+err.Field)
		if err.Detail == "" && err.Type == field.ErrorTypeInvalid {
			t.Errorf("%v does not say what is wrong", err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors differ (-want +got):\n%s\n%v", diff, errs)
	}
}

// errorName are short names of the types of errors.
var errorName = map[field.ErrorType]string{
	field.ErrorTypeRequired:     "Required",
	field.ErrorTypeInvalid:      "Invalid",
	field.ErrorTypeForbidden:    "Forbidden",
	field.ErrorTypeDuplicate:    "Duplicate",
	field.ErrorTypeNotSupported: "NotSupported",
}

func hostKey(t *testing.T, public any) string {
	t.Helper()
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func ed25519Public(t *testing.T) ed25519.PublicKey {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func rsaPublic(t *testing.T, bits int) *rsa.PublicKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return &key.PublicKey
}

func ecdsaPublic(t *testing.T, curve elliptic.Curve) *ecdsa.PublicKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &key.PublicKey
}

// dsaPublic is in the form of a DSA key; that no private key belongs to it does not matter.
func dsaPublic() *dsa.PublicKey {
	p := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 1023), big.NewInt(1))
	q := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 159), big.NewInt(1))
	return &dsa.PublicKey{Parameters: dsa.Parameters{P: p, Q: q, G: big.NewInt(2)}, Y: big.NewInt(4)}
}
