# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Lets windows-controller log in over SSH with $authorizedKey. Some platforms run it at each boot: what
# is done already is not done again. A step that fails is said in the log of the launch agent of the
# platform, and keeps no other step from running.

$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
$ssh = Join-Path $env:ProgramData 'ssh'
$restart = $false

function Invoke-Step {
  param([string]$Name, [scriptblock]$Step)
  try { & $Step } catch { Write-Output "$Name failed: $_" }
}

function Open-Port {
  param([string]$Name, [string]$DisplayName, [int]$Port)
  if (-not (Get-NetFirewallRule -Name $Name -ErrorAction SilentlyContinue)) {
    New-NetFirewallRule -Name $Name -DisplayName $DisplayName -Direction Inbound -Action Allow -Protocol TCP -LocalPort $Port | Out-Null
  }
  Set-NetFirewallRule -Name $Name -Enabled True -Profile Any
}

Invoke-Step 'Enabling the user' {
  # That is the one on Azure, which the platform has made with the machine.
  if (Get-LocalUser -Name 'capi' -ErrorAction SilentlyContinue) { return }
  $user = Get-LocalUser -Name 'Administrator'
  if ($user.Enabled) { return }
  # A user that is enabled must have a password. Nobody knows this one, and sshd accepts none.
  $bytes = New-Object byte[] 32
  $random = [Security.Cryptography.RandomNumberGenerator]::Create()
  try { $random.GetBytes($bytes) } finally { $random.Dispose() }
  $password = ConvertTo-SecureString -String ([Convert]::ToBase64String($bytes) + 'aA1!') -AsPlainText -Force
  $user | Set-LocalUser -Password $password
  $user | Enable-LocalUser
}

Invoke-Step 'Installing OpenSSH' {
  # Windows Server 2025 has it. Elsewhere it comes over the network, which may be late.
  for ($try = 1; $try -le 10; $try++) {
    if (Get-Service -Name sshd -ErrorAction SilentlyContinue) { return }
    if ($try -gt 1) { Start-Sleep -Seconds 5 }
    try {
      Add-WindowsCapability -Online -Name 'OpenSSH.Server~~~~0.0.1.0' | Out-Null
    } catch {
      Write-Output "Installing OpenSSH, attempt ${try}: $_"
    }
  }
  Get-Service -Name sshd | Out-Null
}

Invoke-Step 'Opening ports of the firewall' {
  # After OpenSSH is installed: that may bring its own rule of this name, for private networks only, and to Windows
  # the network of a cloud is a public one.
  Open-Port 'OpenSSH-Server-In-TCP' 'OpenSSH Server (sshd)' 22
  Open-Port 'ContainerLogsPort' 'ContainerLogsPort' 10250
  Open-Port 'WindowsExporter' 'WindowsExporter' 9182
}

Invoke-Step 'Starting sshd' {
  # The first start makes the directory, with the configuration.
  Set-Service -Name sshd -StartupType Automatic
  Start-Service -Name sshd
}

Invoke-Step 'Configuring sshd' {
  $file = Join-Path $ssh 'sshd_config'
  $before = @(Get-Content -LiteralPath $file -Encoding UTF8)
  $after = @('PubkeyAuthentication yes', 'PasswordAuthentication no') + @($before | Where-Object {
      $_ -notmatch '^\s*#?\s*(PubkeyAuthentication|PasswordAuthentication)\s'
    })
  if (($before -join '|') -ceq ($after -join '|')) { return }
  [IO.File]::WriteAllLines($file, [string[]]$after)
  $script:restart = $true
}

Invoke-Step 'Authorizing the key' {
  # This script has the key of the day on which the machine was made. Once it was authorized, this machine
  # keeps what its file has then: the key may have been replaced, and must not come back with a restart.
  $guid = (Get-ItemProperty -LiteralPath 'HKLM:\SOFTWARE\Microsoft\Cryptography').MachineGuid
  $authorized = "$guid $authorizedKey"
  $marker = Join-Path $ssh 'windows-user-data'
  $file = Join-Path $ssh 'administrators_authorized_keys'
  if ((Test-Path -LiteralPath $file) -and (Test-Path -LiteralPath $marker) -and ([IO.File]::ReadAllText($marker) -ceq $authorized)) { return }
  # sshd reads it only if nobody but administrators and SYSTEM may write it. The names of the two are
  # translated, their identifiers are not.
  $new = Join-Path $ssh 'administrators_authorized_keys.new'
  New-Item -ItemType File -Path $new -Force | Out-Null
  icacls.exe $new /inheritance:r /grant '*S-1-5-32-544:F' /grant '*S-1-5-18:F' | Out-Null
  if ($LASTEXITCODE -ne 0) { throw "icacls.exe failed with $LASTEXITCODE" }
  Set-Content -LiteralPath $new -Value $authorizedKey -Encoding ascii
  Move-Item -LiteralPath $new -Destination $file -Force
  [IO.File]::WriteAllText($marker, $authorized)
}

if ($restart) {
  Invoke-Step 'Restarting sshd' { Restart-Service -Name sshd -Force }
}
