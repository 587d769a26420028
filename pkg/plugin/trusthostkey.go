// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/hostkey"
	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

type trustOptions struct {
	fingerprint, key string
	yes              bool
	dryRun           string
}

func newTrustHostKey(e *env) *cobra.Command {
	o := &trustOptions{}
	cmd := &cobra.Command{
		Use:   "trust-host-key NAME [--fingerprint SHA256:... | --key KEY]",
		Short: "Trust the new host key of a host",
		Long: `Trust the key that a host presents now, and no other, from now on. It is for a host that was
reinstalled, whose condition HostKeyTrusted has the reason HostKeyChanged, for one that the Windows
Machine Config Operator (WMCO) has met with another key, which has that reason, too, and for an
object that was restored from a backup, where it is HostKeyUnconfirmed.

Compare the fingerprint with that on the console of the host before
(ssh-keygen -l -f C:\ProgramData\ssh\ssh_host_ed25519_key.pub): if it is not the same, another
machine answers in its place. It needs the verb trust on windowshostkeys.windows.openshift.io.`,
		Example: `  kubectl windows trust-host-key win-6

  # In a script that knows the key of the host from elsewhere
  kubectl windows trust-host-key win-6 --yes --fingerprint SHA256:Jo2W8ggzR7SjDdXEQm9VyBGsgI8Z4Ocl9sOuFAvpzkM`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: e.completeHost,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), e, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.fingerprint, "fingerprint", "", "Only if the new key has this fingerprint, as ssh-keygen -l prints it.")
	f.StringVar(&o.key, "key", "", "The new key, as a line of an authorized_keys or .pub file.")
	f.BoolVar(&o.yes, "yes", false, "Do not ask. Needs --fingerprint or --key.")
	addDryRun(cmd, &o.dryRun, "none, or server: everything is checked, and nothing is changed.")
	cmd.MarkFlagsMutuallyExclusive("fingerprint", "key")
	return cmd
}

func (o *trustOptions) run(ctx context.Context, e *env, name string) error {
	if o.yes && o.fingerprint == "" && o.key == "" {
		return errors.New("--yes needs --fingerprint or --key: a key that nobody has compared is not to be trusted")
	}
	dryRun, err := dryRunOf(o.dryRun)
	if err != nil {
		return err
	}
	c, t, err := e.one(ctx, name)
	if err != nil {
		return err
	}
	key, err := o.choose(t.WindowsInstance)
	if err != nil {
		return err
	}
	if !o.yes {
		if !printers.IsTerminal(e.In) {
			return errors.New("nobody can be asked here: use --yes with --fingerprint or --key")
		}
		if err := askForKey(ctx, e, t, key); err != nil {
			return err
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": t.UID},
		"spec":     map[string]any{"hostKeys": []string{keyLine(key)}},
	})
	if err != nil {
		return fmt.Errorf("making the change: %w", err)
	}
	suffix := ""
	if dryRun != nil {
		suffix = " (server dry run)"
	}
	if _, err := c.windows.WindowsInstances(t.Namespace).Patch(ctx, t.Name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun, FieldValidation: strictly}); err != nil {
		return err
	}
	return e.print(fmt.Sprintf("windowsinstance/%s trusts %s %s%s\n", t.Name, key.Type(), ssh.FingerprintSHA256(key), suffix))
}

// errNoChange is for a host whose key is in order.
var errNoChange = errors.New("the host has not presented another key than the trusted one (condition HostKeyTrusted); a key to trust from the start can be named with --key")

// choose finds out which key is to be trusted, and that it is the one that is meant.
func (o *trustOptions) choose(instance *v1alpha1.WindowsInstance) (ssh.PublicKey, error) {
	presented, changed := presentedKey(instance)
	if o.key != "" {
		key, err := hostkey.Parse(o.key)
		if err != nil {
			return nil, fmt.Errorf("--key is no public key: want its type, a space, and base64 as in a .pub file: %w", err)
		}
		switch {
		case presented != nil && keyLine(presented) != keyLine(key):
			return nil, fmt.Errorf("the host presents %s, and --key is %s: that is another key", describeKey(presented), describeKey(key))
		case presented == nil && o.yes:
			return nil, errors.New("--yes needs a key that the host has presented; see condition HostKeyTrusted, or set spec.hostKeys with kubectl patch")
		}
		return key, nil
	}
	switch {
	case !changed:
		return nil, errNoChange
	case presented == nil:
		return nil, errors.New("condition HostKeyTrusted does not say which key the host presents: name it with --key")
	case o.fingerprint != "" && o.fingerprint != ssh.FingerprintSHA256(presented):
		return nil, fmt.Errorf("the host presents %s, and --fingerprint is %s: that is another key", describeKey(presented), o.fingerprint)
	}
	return presented, nil
}

// acceptedKey finds the key in the command with which the message of condition
// HostKeyTrusted ends.
var acceptedKey = regexp.MustCompile(`"hostKeys":\["([a-z0-9@.-]+ [A-Za-z0-9+/]+=*)"\]`)

// presentedKey is the key that a host presents in place of the trusted one, if it is
// known. changed says whether there is such a key at all.
func presentedKey(instance *v1alpha1.WindowsInstance) (key ssh.PublicKey, changed bool) {
	condition := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionHostKeyTrusted)
	if condition == nil || condition.Status != metav1.ConditionFalse {
		return nil, false
	}
	switch condition.Reason {
	case v1alpha1.ReasonHostKeyChanged, v1alpha1.ReasonHostKeyUnconfirmed, v1alpha1.ReasonAnotherHost:
	default:
		return nil, false
	}
	match := acceptedKey.FindStringSubmatch(condition.Message)
	if match == nil {
		return nil, true
	}
	key, err := hostkey.Parse(match[1])
	if err != nil {
		return nil, true
	}
	return key, true
}

// askForKey shows both keys and asks whether the new one is to be trusted.
func askForKey(ctx context.Context, e *env, t target, key ssh.PublicKey) error {
	trusted := trustedKeys(t.WindowsInstance)
	e.note("%s (%s)\n%s  trusted so far:  %s\n  to trust now:    %s\nCompare the fingerprint with that on the console of the host.", t.Name, t.Spec.Address, whyNone(t.WindowsInstance), strings.Join(trusted, "\n                   "), describeKey(key))
	return e.ask(ctx, "Is it the same? Type yes to trust it: ")
}

// whyNone is why the key of a host of which nobody has trusted one is not trusted as the first one, as a line: perhaps others know the host
// with another one.
func whyNone(instance *v1alpha1.WindowsInstance) string {
	c := meta.FindStatusCondition(instance.Status.Conditions, v1alpha1.ConditionHostKeyTrusted)
	if c == nil || c.Status != metav1.ConditionFalse || len(instance.Spec.HostKeys)+len(instance.Status.HostKeys) > 0 {
		return ""
	}
	why, _, _ := strings.Cut(c.Message, ". ")
	return "  " + why + ".\n"
}

// trustedKeys are the keys that are trusted so far, for people.
func trustedKeys(instance *v1alpha1.WindowsInstance) []string {
	var keys []string
	for _, line := range instance.Spec.HostKeys {
		if key, err := hostkey.Parse(line); err == nil {
			keys = append(keys, describeKey(key))
		}
	}
	if len(keys) == 0 {
		for _, key := range instance.Status.HostKeys {
			keys = append(keys, key.Type+" "+key.Fingerprint)
		}
	}
	if len(keys) == 0 {
		return []string{none}
	}
	return keys
}

func describeKey(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

// keyLine is a key as spec.hostKeys has it.
func keyLine(key ssh.PublicKey) string {
	return key.Type() + " " + hostkey.Base64(key)
}
