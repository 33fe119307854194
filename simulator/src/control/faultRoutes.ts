/** Control of the faults: one POST may set several of them. */
import { badRequest } from '../errors.ts';
import { PROXY_FAULT_MODES, type Faults, type ProxyFaultMode, type RuleName } from '../faults.ts';
import type { ProxyPool } from '../proxies/pool.ts';
import type { Server } from '../server/server.ts';
import { normalisePhone } from '../state/store.ts';
import type { World } from '../world.ts';
import type { Body, Routes } from './http.ts';

const KNOWN = new Set([
  'drop', 'refuseLogin', 'nackSends', 'ackDelayMs', 'noAcks', 'loseSends', 'mediaStatus', 'mediaStallMs', 'blackHole', 'upgradeStatus',
  'streamError', 'proxyDown', 'proxyUp', 'proxyFault', 'clear', 'phone', 'count'
]);

const numberOf = (value: unknown, name: string): number => {
  const number = Number(value);
  if (!Number.isInteger(number) || number < 0) throw badRequest(`"${name}" is a number`);
  return number;
};

/** A number sets a rule, null or false takes it away, true means "yes". */
const setRule = (faults: Faults, name: RuleName, body: Body, phone: string | undefined): void => {
  const value = body[name];
  const off = value === null || value === false;
  const count = body.count === undefined ? undefined : numberOf(body.count, 'count');
  faults[name].set(phone, off ? null : value === true ? 1 : numberOf(value, name), count);
};

const RULES: readonly RuleName[] = ['refuseLogin', 'nackSends', 'ackDelayMs', 'noAcks', 'loseSends', 'mediaStatus', 'mediaStallMs'];

export class FaultControl {
  constructor(
    private readonly world: World,
    private readonly server: Server,
    private readonly pool: ProxyPool
  ) {}

  async set(body: Body): Promise<object> {
    const unknown = Object.keys(body).filter(name => !KNOWN.has(name));
    if (unknown.length) throw badRequest(`unknown fault: ${unknown.join(', ')}`, 'UNKNOWN_FAULT');
    const phone = typeof body.phone === 'string' ? normalisePhone(body.phone) : undefined;
    if (body.clear === true) await this.clear();
    for (const name of RULES) if (name in body) setRule(this.world.faults, name, body, phone);
    if ('blackHole' in body) this.server.setBlackHole(body.blackHole === true);
    if ('upgradeStatus' in body) this.world.faults.upgradeStatus = body.upgradeStatus === null ? null : numberOf(body.upgradeStatus, 'upgradeStatus');
    const closed = this.closeConnections(body, phone);
    await this.setProxies(body);
    return { ...this.show(), closed };
  }

  private closeConnections(body: Body, phone: string | undefined): number {
    const chosen = (which: unknown) => {
      if (which === 'all' || which === undefined) return [...this.world.hub.all];
      const account = this.world.store.account(normalisePhone(String(which)));
      return account ? this.world.hub.ofAccount(account) : [];
    };
    let closed = 0;
    if ('drop' in body) {
      for (const connection of chosen(body.drop)) {
        connection.terminate();
        closed += 1;
      }
    }
    if ('streamError' in body) {
      const code = numberOf(body.streamError, 'streamError');
      for (const connection of chosen(phone)) {
        connection.streamError(code);
        closed += 1;
      }
    }
    return closed;
  }

  private async setProxies(body: Body): Promise<void> {
    if ('proxyDown' in body) await this.pool.byPort(numberOf(body.proxyDown, 'proxyDown')).stop();
    if ('proxyUp' in body) await this.pool.byPort(numberOf(body.proxyUp, 'proxyUp')).start();
    if (!('proxyFault' in body)) return;
    const { port, mode } = (body.proxyFault ?? {}) as { port?: unknown; mode?: unknown };
    if (mode !== null && !PROXY_FAULT_MODES.includes(mode as ProxyFaultMode)) {
      throw badRequest(`proxyFault.mode is one of ${PROXY_FAULT_MODES.join(', ')} or null`);
    }
    await this.pool.byPort(numberOf(port, 'proxyFault.port')).setFault(mode as ProxyFaultMode | null);
  }

  private async clear(): Promise<void> {
    if (this.world.faults.blackHole) this.server.setBlackHole(false);
    this.world.faults.clear();
    await this.pool.clearFaults();
  }

  show(): object {
    const proxies = this.pool.proxies.map(({ options, up, fault }) => ({ port: options.port, up, fault }));
    return { ...this.world.faults.toJSON(), proxies };
  }
}

export const faultRoutes = (control: FaultControl): Routes => ({
  'POST /faults': (_, body) => control.set(body),
  'GET /faults': () => control.show()
});
